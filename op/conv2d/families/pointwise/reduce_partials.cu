#include "conv2d/families/pointwise/reduce_partials.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/sum_partials.cuh"
#include "cuda/check.h"

namespace haloconv::pointwise {

namespace {

// A lane adds four neighbours of a row. The first blocks have the filter's gradient, the others the
// bias's.
template <class T, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_partials_kernel(const __grid_constant__ WgradArguments args,
                           const __grid_constant__ Strides filter, int32_t filter_blocks,
                           T* __restrict__ grad_filter, T* __restrict__ grad_bias) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int64_t k = (int64_t{blockIdx.x} - filter_blocks) * kLanes + lane;
    const bool exists = k < int64_t{args.groups} * args.rows;
    const int64_t at = k / args.rows * args.padded_rows + k % args.rows;
    const float sum = sum_partials<kSlices>(args.bias_partial + at, args.bias_partial_floats(),
                                            exists ? args.splits : 0);
    if (exists && writes) grad_bias[k] = T(sum);
    return;
  }
  const int64_t first = (int64_t{blockIdx.x} * kLanes + lane) * 4;
  const int64_t partial_floats = args.partial_floats();
  const float4 sum =
      sum_partials<kSlices>(reinterpret_cast<const float4*>(args.partial + first),
                            partial_floats / 4, first < partial_floats ? args.splits : 0);
  if (first >= partial_floats || !writes) return;
  const int64_t padded_row = first / args.padded_columns;
  const auto c = static_cast<int32_t>(first % args.padded_columns);
  const auto row = static_cast<int32_t>(padded_row % args.padded_rows);
  if (row >= args.rows) return;
  T* const to =
      grad_filter + (padded_row / args.padded_rows * args.rows + row) * filter.n + c * filter.c;
  const float sums[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (c + i < args.columns) to[i * filter.c] = T(sums[i]);
  }
}

}  // namespace

template <class T>
void launch_reduce_partials(const WgradArguments& args, const Strides& filter, T* grad_filter,
                            T* grad_bias, cudaStream_t stream) {
  const int64_t bias_floats = grad_bias == nullptr ? 0 : int64_t{args.groups} * args.rows;
  with_slices(args.splits, [&]<int kSlices>() {
    const ReductionGrid grid = reduction_grid<kSlices>(args.partial_floats(), bias_floats);
    reduce_partials_kernel<T, kSlices><<<grid.blocks, kReduceThreads, 0, stream>>>(
        args, filter, grid.filter_blocks, grad_filter, grad_bias);
  });
  check_launch("pointwise wgrad sums");
}

template void launch_reduce_partials(const WgradArguments&, const Strides&, float*, float*,
                                     cudaStream_t);
template void launch_reduce_partials(const WgradArguments&, const Strides&, __half*, __half*,
                                     cudaStream_t);
template void launch_reduce_partials(const WgradArguments&, const Strides&, __nv_bfloat16*,
                                     __nv_bfloat16*, cudaStream_t);

}  // namespace haloconv::pointwise
