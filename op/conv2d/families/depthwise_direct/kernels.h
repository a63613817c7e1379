// The kernels that launch.cpp starts.
#pragma once

#include <cuda_runtime.h>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/depthwise_direct/plan.h"

namespace haloconv::depthwise_direct {

template <class T>
struct KernelArguments {
  const T *source, *filter, *bias;  // the bias may be null
  T* destination;
  Fusion fusion;
  Arguments shape;
};

void launch_rows(const Plan& plan, const KernelArguments<float>& args, cudaStream_t stream);
template <class T>
void launch_squares(const Plan& plan, const KernelArguments<T>& args, cudaStream_t stream);
template <class T>
void launch_vectors(const Plan& plan, const KernelArguments<T>& args, cudaStream_t stream);

}  // namespace haloconv::depthwise_direct
