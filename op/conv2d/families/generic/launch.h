// The generic implementation: plain multiply-adds on any chip, every parameter. There is one host
// launcher for each direction and element type (float, double, __half, __nv_bfloat16).
#pragma once

#include <cuda_runtime_api.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/generic/lowered.h"
#include "conv2d/families/generic/plan.h"

namespace haloconv::generic {

// fprop (source = input, destination = output) or dgrad (output gradient, input gradient), as the
// plan says; bias may be null. A fusion needs a plan that takes_fusion() passes.
template <class T>
void launch_gather(const Plan& plan, const Lowered& lowered, const T* source, const T* filter,
                   const T* bias, const Fusion& fusion, T* destination, void* workspace,
                   cudaStream_t stream);

// grad_bias is written if plan.with_bias is set.
template <class T>
void launch_wgrad(const Plan& plan, const Lowered& lowered, const T* grad_output, const T* input,
                  T* grad_filter, T* grad_bias, void* workspace, cudaStream_t stream);

}  // namespace haloconv::generic
