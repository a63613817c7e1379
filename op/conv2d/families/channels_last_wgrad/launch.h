#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/channels_last_wgrad/plan.h"

namespace haloconv::sm90::channels_last_wgrad {

// grad_output (n, k, p, q), input (n, c, h, w) -> grad_filter (k, c, r, s) and, where the plan has
// it, grad_bias (k).
void launch(const Conv2dProblem& problem, const Plan& plan, const void* grad_output,
            const void* input, void* grad_filter, void* grad_bias, void* workspace,
            cudaStream_t stream);

}  // namespace haloconv::sm90::channels_last_wgrad
