// The convolutions, by the plan of an implementation. Each call enqueues kernels on `stream` of the
// current device and returns; nothing is allocated or waited for. Pointers are device memory of the
// problem's type with the problem's strides; workspace holds plan.workspace_bytes, aligned to 16.
// Results are written whole; nothing else is touched. Sums are kept in float32 (float64 for
// float64) and added in an order that only the plan fixes, so results repeat bit for bit.
// An infinity or NaN reaches exactly the results whose taps meet it. Taps on padding count as
// zeros: times an infinite weight they give NaN, as in ATen. Of the input's gradient, where they
// lie beyond the output, those to the left and right count as nothing in a Hopper plan of scatter/.
// Throw std::runtime_error when a launch fails, std::logic_error for a plan of another direction.
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/generic/plan.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/wgrad/plan.h"
#include "conv2d/problem.h"

namespace haloconv {

// input (n, c, h, w), filter (k, c/groups, r, s), bias (k) or null -> output (n, k, p, q)
void conv2d_fprop(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* input,
                  const void* filter, const void* bias, void* output, void* workspace,
                  cudaStream_t stream);

// The same with what `fusion` says, computed in the sums' type: by plans that takes_fusion()
// passes.
void conv2d_fused(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* input,
                  const void* filter, const void* bias, const Fusion& fusion, void* output,
                  void* workspace, cudaStream_t stream);

// grad_output (n, k, p, q), filter (k, c/groups, r, s) -> grad_input (n, c, h, w)
void conv2d_dgrad(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* grad_output,
                  const void* filter, void* grad_input, void* workspace, cudaStream_t stream);

// The same on Hopper, of float32, in TF32 or precise, or of a 16-bit type.
void conv2d_fprop(const Conv2dProblem& problem, const sm90::Plan& plan, const void* input,
                  const void* filter, const void* bias, void* output, void* workspace,
                  cudaStream_t stream);
void conv2d_fused(const Conv2dProblem& problem, const sm90::Plan& plan, const void* input,
                  const void* filter, const void* bias, const Fusion& fusion, void* output,
                  void* workspace, cudaStream_t stream);
void conv2d_dgrad(const Conv2dProblem& problem, const sm90::Plan& plan, const void* grad_output,
                  const void* filter, void* grad_input, void* workspace, cudaStream_t stream);

// grad_output (n, k, p, q), input (n, c, h, w) -> grad_filter (k, c/groups, r, s) and, where the
// plan has it, grad_bias (k)
void conv2d_wgrad(const Conv2dProblem& problem, const Conv2dPlan& plan, const void* grad_output,
                  const void* input, void* grad_filter, void* grad_bias, void* workspace,
                  cudaStream_t stream);
void conv2d_wgrad(const Conv2dProblem& problem, const sm90::wgrad::Plan& plan,
                  const void* grad_output, const void* input, void* grad_filter, void* grad_bias,
                  void* workspace, cudaStream_t stream);

}  // namespace haloconv
