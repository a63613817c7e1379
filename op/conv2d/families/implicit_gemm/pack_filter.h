// The filter in the order in which the kernel multiplies it.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/implicit_gemm/arguments.h"

namespace haloconv::implicit_gemm {

// Writes args.filter, of the launch's phases, from the filter as it lies.
void pack_filter(DataType type, const Tile& tile, const Arguments& args, const void* filter,
                 void* packed, cudaStream_t stream);

}  // namespace haloconv::implicit_gemm
