// The instances of the kernel: one file for each tile.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"

namespace haloconv::windows_wgrad {

// By the tile of that index, to the workspace. The type is float16, bfloat16, or float32, rounded
// to TF32.
template <int kIndex>
void launch_tile(DataType type, const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::windows_wgrad
