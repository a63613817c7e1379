// The kernel's instantiations, by type, matrix instructions of a warpgroup and pixels of an
// instruction; and those of float32 that take a fusion.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/halo/arguments.h"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth>
void launch_instance(const Arguments& args, unsigned blocks, cudaStream_t stream);

template <int kInstructions, int kWidth>
void launch_fused_instance(const Arguments& args, unsigned blocks, cudaStream_t stream);

}  // namespace haloconv::halo
