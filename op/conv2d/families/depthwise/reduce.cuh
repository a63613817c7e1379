// The sum of a weight gradient's partial sums.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/depthwise/launch.h"
#include "conv2d/families/depthwise/plan.h"
#include "conv2d/geometry/geometry.h"
#include "cuda/check.h"

namespace haloconv::depthwise {

// Of partial sums (split, channel, weight, and then the bias gradient if there is a column for it):
// a lane has one element of a channel.
template <class T, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    depthwise_reduce_kernel(const float* __restrict__ partial, int32_t splits,
                            const __grid_constant__ Wgrad g, T* __restrict__ grad_filter,
                            T* __restrict__ grad_bias) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int64_t elements = int64_t{g.groups} * g.rows * g.columns;
  const int64_t i = int64_t{blockIdx.x} * kLanes + threadIdx.x % kLanes;
  const bool exists = i < elements;
  const float sum = sum_partials<kSlices>(partial + i, elements, exists ? splits : 0);
  if (!exists || threadIdx.x >= kLanes) return;
  const int64_t k = i / g.columns;
  const auto column = static_cast<int32_t>(i - k * g.columns);
  if (g.has_bias_column && column == g.columns - 1) {
    store(grad_bias + k, sum);
  } else {
    const int32_t r = column / g.taps_w, s = column - r * g.taps_w;
    store(grad_filter + (k * g.filter.n + r * g.filter.h + s * g.filter.w), sum);
  }
}

template <class T>
void reduce(const Plan& plan, const Wgrad& geometry, const WgradTensors<T>& tensors,
            cudaStream_t stream) {
  const auto splits = static_cast<int32_t>(plan.splits);
  const int64_t elements = int64_t{geometry.groups} * geometry.rows * geometry.columns;
  with_slices(splits, [&]<int kSlices>() {
    depthwise_reduce_kernel<T, kSlices>
        <<<grid_blocks(ceil_div(elements, kReduceThreads / kSlices)), kReduceThreads, 0, stream>>>(
            static_cast<const float*>(tensors.workspace), splits, geometry, tensors.grad_filter,
            tensors.grad_bias);
  });
  check_launch("depthwise_reduce");
}

}  // namespace haloconv::depthwise
