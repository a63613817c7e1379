#include "conv2d/families/wgrad/reduce_parts.h"

#include "conv2d/device/sum_parts.cuh"
#include "conv2d/families/wgrad/repair.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::sm90::wgrad {

namespace {

constexpr int kReduceBlocks = 5;  // of a multiprocessor at least: repairs shall not cost any

// A lane adds four values of the filter's gradient. Then its block repairs those that need it.
template <class T, int kSlices>
__device__ __forceinline__ void reduce_filter(const Arguments& args, const Strides& filter,
                                              T* __restrict__ grad_filter) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int64_t block_first = int64_t{blockIdx.x} * kLanes * 4;
  const int64_t first = block_first + threadIdx.x % kLanes * 4;
  const int64_t part_floats = args.part_floats();
  const bool exists = first < part_floats;
  const float4 sum = sum_parts<kSlices>(reinterpret_cast<const float4*>(args.partial + first),
                                        part_floats / 4, exists ? args.parts : 0);
  const auto result_of = [&](const FilterElement& e) -> T& {
    return grad_filter[e.k * filter.n + e.c * filter.c + e.r * filter.h + e.s * filter.w];
  };
  bool has_nan = false;
  if (exists && threadIdx.x < kLanes) {
    const float sums[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const FilterElement e = args.element(first + i);
      if (!e.exists) continue;
      result_of(e) = T(sums[i]);
      has_nan = has_nan || isnan(sums[i]);
    }
  }
  if (!args.has_pixels_beyond() || !__syncthreads_or(has_nan)) return;
  const int64_t end = min(block_first + kLanes * 4, part_floats);
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
      sum_parts<kSlices>(args.bias_partial + k / args.rows * padded_rows + k % args.rows,
                         args.bias_floats(), exists ? args.parts : 0);
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

template <class T, int kSlices>
void launch(const Arguments& args, const Strides& filter, T* grad_filter, T* grad_bias,
            cudaStream_t stream) {
  constexpr int64_t kLanes = kReduceThreads / kSlices;
  const int64_t filter_blocks = ceil_div(args.part_floats() / 4, kLanes);
  const int64_t bias_blocks =
      grad_bias == nullptr ? 0 : ceil_div(int64_t{args.groups} * args.rows, kLanes);
  reduce_kernel<T, kSlices>
      <<<static_cast<unsigned>(filter_blocks + bias_blocks), kReduceThreads, 0, stream>>>(
          args, filter, static_cast<int32_t>(filter_blocks), grad_filter, grad_bias);
  check_launch("sm90 wgrad reduce");
}

}  // namespace

template <class T>
void launch_reduce_parts(const Arguments& args, const Strides& filter, T* grad_filter, T* grad_bias,
                         cudaStream_t stream) {
  const auto launch_slices = args.parts < kManyParts ? launch<T, 1> : launch<T, kManySlices>;
  launch_slices(args, filter, grad_filter, grad_bias, stream);
}

template void launch_reduce_parts(const Arguments&, const Strides&, float*, float*, cudaStream_t);
template void launch_reduce_parts(const Arguments&, const Strides&, PreciseFloat*, PreciseFloat*,
                                  cudaStream_t);
template void launch_reduce_parts(const Arguments&, const Strides&, __half*, __half*, cudaStream_t);
template void launch_reduce_parts(const Arguments&, const Strides&, __nv_bfloat16*, __nv_bfloat16*,
                                  cudaStream_t);

}  // namespace haloconv::sm90::wgrad
