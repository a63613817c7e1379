// Launches the family's kernels, for each element type but float64.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// fprop (source = input, destination = output) or dgrad (output gradient, input gradient), for the
// problems that make_depthwise() takes (rows innermost) or make_depthwise_nhwc() (channels
// innermost). `bias` may be null; a fusion goes with fprop alone.
template <class T>
void launch_rows(const Conv2dProblem& problem, Direction direction, const T* source,
                 const T* filter, const T* bias, const Fusion& fusion, T* destination,
                 cudaStream_t stream);
template <class T>
void launch_channels(const Conv2dProblem& problem, Direction direction, const T* source,
                     const T* filter, const T* bias, const Fusion& fusion, T* destination,
                     cudaStream_t stream);

// wgrad's partial sums and their sum, for the problems that make_depthwise_wgrad() or
// make_depthwise_nhwc() takes. `grad_bias` is written where the plan has it.
template <class T>
void launch_rows_wgrad(const Conv2dProblem& problem, const Plan& plan, const T* grad_output,
                       const T* input, T* grad_filter, T* grad_bias, void* workspace,
                       cudaStream_t stream);
template <class T>
void launch_channels_wgrad(const Conv2dProblem& problem, const Plan& plan, const T* grad_output,
                           const T* input, T* grad_filter, T* grad_bias, void* workspace,
                           cudaStream_t stream);

}  // namespace haloconv::depthwise
