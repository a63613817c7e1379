// Declares the kernels' launches, which are compiled in a file for each tile.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/families/channels_last/tensor_maps.h"
#include "conv2d/families/channels_last/windows.h"

namespace haloconv::sm90::channels_last {

// What else than its tile chooses a kernel.
struct Instance {
  DataType type;
  bool dgrad;
  bool fused;  // with bias, scale, shift, residual or activation
};

template <Tile kTile>
void launch_tile(const Instance& instance, const Arguments& args, const TensorMaps& maps,
                 int multiprocessors, cudaStream_t stream);

template <Tile kTile>
void launch_windows(const Instance& instance, const WindowLaunch& launch, const WindowMaps& maps,
                    int multiprocessors, cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last
