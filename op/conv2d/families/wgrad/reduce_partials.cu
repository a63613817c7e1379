#include "conv2d/families/wgrad/reduce_partials.h"

#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/wgrad/nonfinite_repair.cuh"
#include "conv2d/families/wgrad/unit.h"
#include "cuda/check.h"

namespace haloconv::wgrad {

namespace {

constexpr int kReduceBlocks = 4;  // of a multiprocessor at least: repairs shall not cost more

// A lane adds four values of the filter's gradient. Then its block repairs those that need it.
template <class T, int kSlices>
__device__ __forceinline__ void reduce_filter(const Arguments& args, const Strides& filter,
                                              T* __restrict__ grad_filter) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int64_t block_first = int64_t{blockIdx.x} * kLanes * 4;
  const int64_t first = block_first + threadIdx.x % kLanes * 4;
  const int64_t partial_floats = args.partial_floats();
  const bool exists = first < partial_floats;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(args.partial + first),
                                           partial_floats / 4, exists ? args.partials : 0);
  const auto result_of = [&](const FilterElement& e) -> T& {
    return grad_filter[e.k * filter.n + e.c * filter.c + e.r * filter.h + e.s * filter.w];
  };
  bool has_nan = false;
  if (exists && threadIdx.x < kLanes) {
    const float sums[] = {sum.x, sum.y, sum.z, sum.w};
    const FilterElement first_element = args.element(first);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const FilterElement e = element_after(args, first_element, i / 2 * 8, i % 2);
      if (!e.exists) continue;
      result_of(e) = T(sums[i]);
      has_nan = has_nan || isnan(sums[i]);
    }
  }
  if (!args.has_pixels_beyond() || !__syncthreads_or(has_nan)) return;
  const int64_t end = min(block_first + kLanes * 4, partial_floats);
  repair_results<T, kReduceThreads>(args, block_first, end, result_of);
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
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
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
