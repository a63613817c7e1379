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

void launch_fprop(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);
void launch_dgrad(DataType type, const Plan& plan, const Tensors& tensors, cudaStream_t stream);

struct WgradTensors {
  const void *input, *grad_output;
  void *grad_filter, *grad_bias;  // the bias's may be null
  void* workspace;
};

void launch_wgrad(DataType type, const Plan& plan, const WgradTensors& tensors,
                  cudaStream_t stream);

}  // namespace haloconv::heads
