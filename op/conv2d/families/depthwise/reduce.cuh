// The sum of a weight gradient's partial sums.
#pragma once

#include "conv2d/device/reduce_splits.cuh"
#include "conv2d/families/depthwise/plan.h"

namespace haloconv::depthwise {

template <class T>
void reduce(const Plan& plan, const Wgrad& geometry, T* grad_filter, T* grad_bias, void* workspace,
            cudaStream_t stream) {
  WgradArguments<T> args{};
  args.partial = static_cast<float*>(workspace);
  args.geometry = geometry;
  launch_reduce_splits<T>(args, plan.splits, grad_filter, grad_bias, stream);
}

}  // namespace haloconv::depthwise
