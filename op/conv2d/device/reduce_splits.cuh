// Adds wgrad's partial sums in the order of the splits and writes both gradients.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/device/grid.h"
#include "conv2d/device/site.cuh"
#include "conv2d/device/wgrad_arguments.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv {

inline constexpr int kReduceSplitsThreads = 256;

template <class T>
__global__ void __launch_bounds__(kReduceSplitsThreads)
    reduce_splits_kernel(const __grid_constant__ WgradArguments<T> args, int64_t splits,
                         T* __restrict__ grad_filter, T* __restrict__ grad_bias) {
  using Acc = AccumulatorOf<T>;
  const Wgrad& g = args.geometry;
  const int64_t elements = int64_t{g.groups} * g.rows * g.columns;
  const int64_t i = int64_t{blockIdx.x} * kReduceSplitsThreads + threadIdx.x;
  if (i >= elements) return;
  Acc sum = 0;
#pragma unroll 8
  for (int64_t split = 0; split < splits; ++split) sum += args.partial[split * elements + i];

  const int64_t k = i / g.columns;  // output channel
  const int32_t column = static_cast<int32_t>(i % g.columns);
  if (g.has_bias_column && column == g.columns - 1) {
    store(grad_bias + k, sum);
    return;
  }
  const FilterColumn at(g, column);
  store(grad_filter +
            (k * g.filter.n + at.channel * g.filter.c + at.r * g.filter.h + at.s * g.filter.w),
        sum);
}

template <class T>
void launch_reduce_splits(const WgradArguments<T>& args, int64_t splits, T* grad_filter,
                          T* grad_bias, cudaStream_t stream) {
  const int64_t elements =
      int64_t{args.geometry.groups} * args.geometry.rows * args.geometry.columns;
  reduce_splits_kernel<T>
      <<<grid_blocks(ceil_div(elements, kReduceSplitsThreads)), kReduceSplitsThreads, 0, stream>>>(
          args, splits, grad_filter, grad_bias);
  check_launch("reduce_splits");
}

// The same of what a kernel without WgradArguments left. The gradients have elements of type T.
template <class T>
void launch_reduce_splits(float* partial, const Wgrad& geometry, int64_t splits, void* grad_filter,
                          void* grad_bias, cudaStream_t stream) {
  WgradArguments<T> args{};
  args.partial = partial;
  args.geometry = geometry;
  launch_reduce_splits<T>(args, splits, static_cast<T*>(grad_filter), static_cast<T*>(grad_bias),
                          stream);
}

}  // namespace haloconv
