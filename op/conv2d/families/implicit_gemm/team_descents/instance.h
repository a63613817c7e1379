// The instance of the kernel for descents of a team (team_descents.h).
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/arguments.h"

namespace haloconv::implicit_gemm {

// args.filter is the filter as it lies. The type is float16, bfloat16, or float32, rounded to TF32.
void launch_team_descents(DataType type, const Arguments& args, cudaStream_t stream);

}  // namespace haloconv::implicit_gemm
