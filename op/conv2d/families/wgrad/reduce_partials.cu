#include "conv2d/families/wgrad/reduce_partials.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/precise_float.h"
#include "conv2d/device/sum_partials.cuh"
#include "cuda/check.h"

namespace haloconv::wgrad {

namespace {

// A lane adds four values of the filter's gradient.
template <class T, int kSlices>
__device__ __forceinline__ void reduce_filter(const Arguments& args, const Strides& filter,
                                              T* __restrict__ grad_filter) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int64_t first = (int64_t{blockIdx.x} * kLanes + threadIdx.x % kLanes) * 4;
  const int64_t partial_floats = args.partial_floats();
  const bool exists = first < partial_floats;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(args.partial + first),
                                           partial_floats / 4, exists ? args.partials : 0);
  if (!exists || threadIdx.x >= kLanes) return;
  const float sums[] = {sum.x, sum.y, sum.z, sum.w};
  // Two columns of a row, and of the row 8 further; these four are of one tap.
  const FilterElement e = args.element(first);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int32_t rows = i / 2 * 8, columns = i % 2;
    if (!e.exists || e.k % args.rows + rows >= args.rows || e.c + columns >= args.channels)
      continue;
    grad_filter[(e.k + rows) * filter.n + (e.c + columns) * filter.c + e.r * filter.h +
                e.s * filter.w] = T(sums[i]);
  }
}

template <class T, int kSlices>
__device__ __forceinline__ void reduce_bias(const Arguments& args, int32_t block,
                                            T* __restrict__ grad_bias) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int64_t k = int64_t{block} * kLanes + threadIdx.x % kLanes;
  const bool exists = k < int64_t{args.groups} * args.rows;
  const int64_t padded_rows = int64_t{args.row_groups()} * kRowsOfGroup;
  const float sum =
      sum_partials<kSlices>(args.bias_partial + k / args.rows * padded_rows + k % args.rows,
                            args.bias_floats(), exists ? args.partials : 0);
  if (exists && threadIdx.x < kLanes) grad_bias[k] = T(sum);
}

// The first blocks reduce the filter's gradient, the others the bias's.
template <class T, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(const __grid_constant__ Arguments args, const __grid_constant__ Strides filter,
                  int32_t filter_blocks, T* __restrict__ grad_filter, T* __restrict__ grad_bias) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  if (block < filter_blocks) {
    reduce_filter<T, kSlices>(args, filter, grad_filter);
  } else {
    reduce_bias<T, kSlices>(args, block - filter_blocks, grad_bias);
  }
}

}  // namespace

template <class T>
void launch_reduce_partials(const Arguments& args, const Strides& filter, T* grad_filter,
                            T* grad_bias, cudaStream_t stream) {
  const int64_t bias_floats = grad_bias == nullptr ? 0 : int64_t{args.groups} * args.rows;
  with_slices(args.partials, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.partial_floats(), bias_floats);
    reduce_kernel<T, kSlices><<<grid.blocks, kReduceThreads, 0, stream>>>(
        args, filter, grid.filter_blocks, grad_filter, grad_bias);
  });
  check_launch("wgrad reduce");
}

template void launch_reduce_partials(const Arguments&, const Strides&, float*, float*,
                                     cudaStream_t);
template void launch_reduce_partials(const Arguments&, const Strides&, PreciseFloat*, PreciseFloat*,
                                     cudaStream_t);
template void launch_reduce_partials(const Arguments&, const Strides&, __half*, __half*,
                                     cudaStream_t);
template void launch_reduce_partials(const Arguments&, const Strides&, __nv_bfloat16*,
                                     __nv_bfloat16*, cudaStream_t);

}  // namespace haloconv::wgrad
