// The kernels that launch.cpp starts.
#pragma once

#include <cuda_runtime.h>

#include "conv2d/families/heads/plan.h"

namespace haloconv::heads {

// The tensors of a call; `source` is the input or the output's gradient.
struct Tensors {
  const void *source, *filter, *bias;  // the bias may be null
  void* result;
};

void launch_heads(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);

}  // namespace haloconv::heads
