// Each file of instances has the kernels of one type and one layout of grad_output.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/device/patch_maps.h"
#include "conv2d/families/channels_last_wgrad/arguments.h"

namespace haloconv::sm90::channels_last_wgrad {

template <class T, class Args>
void launch_instance(const Tile& tile, const PatchMaps& maps, const Args& args, int64_t shared,
                     cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last_wgrad
