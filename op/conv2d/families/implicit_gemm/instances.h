// The instances of the kernel: one file for each tile, and one with windows.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/arguments.h"

namespace haloconv::implicit_gemm {

// By the tile of that index. The type is float16, bfloat16, or float32, rounded to TF32. By
// elements only where takes_elements() says so.
template <int kIndex>
void launch_tile(DataType type, Access access, const Arguments& args, cudaStream_t stream);

// By strips (strips.h).
void launch_strips(DataType type, const Arguments& args, cudaStream_t stream);

// By descents (descents.h).
void launch_descents(DataType type, const Arguments& args, cudaStream_t stream);

// With windows, where takes_windows() says so.
template <int kIndex>
void launch_windows(DataType type, Access access, const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::implicit_gemm
