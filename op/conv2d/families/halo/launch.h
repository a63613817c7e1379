// Launches the family's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/problem.h"

namespace haloconv::sm90 {

// Enqueues fprop or dgrad on tensors of the problem's type, as the plan says: the packing of the
// filter, zeros where no tap meets a pixel, then a kernel for each phase, or part of one, that has
// taps. `bias` may be null. Only plans that takes_fusion() passes go with a fusion.
void launch_gather(const Conv2dProblem& problem, const Plan& plan, const void* source,
                   const void* filter, const void* bias, const Fusion& fusion, void* destination,
                   void* workspace, cudaStream_t stream);

}  // namespace haloconv::sm90
