#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/pointwise/plan.h"
#include "conv2d/families/pointwise/wgrad_plan.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::pointwise {

// Enqueues the kernel for a flattened() problem. `bias` may be null.
void launch(const Conv2dProblem& problem, const Plan& plan, const void* source, const void* filter,
            const void* bias, void* destination, int multiprocessors, cudaStream_t stream);

// Enqueues the kernel, then the sum of its parts. `grad_bias` is written where the plan has it.
void launch_wgrad(const Conv2dProblem& problem, const WgradPlan& plan, const void* grad_output,
                  const void* input, void* grad_filter, void* grad_bias, void* workspace,
                  cudaStream_t stream);

}  // namespace haloconv::sm90::pointwise
