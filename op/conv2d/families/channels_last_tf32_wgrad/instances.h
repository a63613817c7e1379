// The kernels' launches.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/device/patch_maps.h"
#include "conv2d/families/channels_last_tf32_wgrad/arguments.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

void launch_kernel(const Tile& tile, const PatchMaps& maps, const Arguments& args,
                   int64_t shared_bytes, cudaStream_t stream);

// Adds the splits' sums.
void launch_add_splits(const Tile& tile, const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
