// Launches the family's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/wgrad/plan.h"
#include "conv2d/problem.h"

namespace haloconv::sm90 {

// Enqueues wgrad: partial sums, then their sum in a fixed order. `grad_bias` is written where the
// plan has it.
void launch_wgrad(const Conv2dProblem& problem, const wgrad::Plan& plan, const void* grad_output,
                  const void* input, void* grad_filter, void* grad_bias, void* workspace,
                  cudaStream_t stream);

}  // namespace haloconv::sm90
