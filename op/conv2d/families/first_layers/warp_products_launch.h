// The launch of weight gradients in TF32 (warp_products.h).
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/families/first_layers/plan.h"
#include "conv2d/family.h"

namespace haloconv::sm90::first_layers {

void run_warp_products(const Conv2dProblem& problem, const Plan& plan, const Operands& operands,
                       cudaStream_t stream);

}  // namespace haloconv::sm90::first_layers
