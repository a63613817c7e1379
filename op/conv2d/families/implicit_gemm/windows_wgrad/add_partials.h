// The sum of the splits, after the blocks.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

namespace haloconv::windows_wgrad {

// In the order of the splits. grad_bias is written where the geometry has its column.
void launch_add_partials(DataType type, const Arguments& args, const Tile& tile, void* grad_filter,
                         void* grad_bias, cudaStream_t stream);

}  // namespace haloconv::windows_wgrad
