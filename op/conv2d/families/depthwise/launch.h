// Launches the family's kernels, for each element type but float64.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise/lowered.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// fprop (source = input, destination = output) or dgrad (output gradient, input gradient), with
// rows or channels innermost. `bias` may be null.
template <class T>
void launch_rows(const Conv2dProblem& problem, const Lowered& lowered, const T* source,
                 const T* filter, const T* bias, const Fusion& fusion, T* destination,
                 cudaStream_t stream);
template <class T>
void launch_channels(const Conv2dProblem& problem, const Lowered& lowered, const T* source,
                     const T* filter, const T* bias, const Fusion& fusion, T* destination,
                     cudaStream_t stream);

// The same along lines.
template <class T>
void launch_lines(const Lowered& lowered, const T* source, const T* filter, const T* bias,
                  const Fusion& fusion, T* destination, cudaStream_t stream);

// The same by band matrices, of 16-bit types.
template <class T>
void launch_bands(const Lowered& lowered, const T* source, const T* filter, const T* bias,
                  const Fusion& fusion, T* destination, cudaStream_t stream);

// wgrad's partial sums and their sum. `grad_bias` is written where the plan has it.
template <class T>
void launch_rows_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                       const T* grad_output, const T* input, T* grad_filter, T* grad_bias,
                       void* workspace, cudaStream_t stream);
template <class T>
void launch_lines_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                        const T* grad_output, const T* input, T* grad_filter, T* grad_bias,
                        void* workspace, cudaStream_t stream);
template <class T>
void launch_channels_wgrad(const Conv2dProblem& problem, const Plan& plan, const Lowered& lowered,
                           const T* grad_output, const T* input, T* grad_filter, T* grad_bias,
                           void* workspace, cudaStream_t stream);

}  // namespace haloconv::depthwise
