// The instances of the kernel: one file for each tile.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

namespace haloconv::windows_wgrad {

// By the tile of that index, and the sum of the splits after it. The type is float16, bfloat16, or
// float32, rounded to TF32. grad_bias is written where the geometry has its column.
template <int kIndex>
void launch_tile(DataType type, const Arguments& args, void* grad_filter, void* grad_bias,
                 cudaStream_t stream);

}  // namespace haloconv::windows_wgrad
