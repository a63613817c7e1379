#include "conv2d/families/pointwise/add_parts.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/sum_parts.cuh"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::sm90::pointwise {

namespace {

// A lane adds four neighbours of a row. The first blocks have the filter's gradient, the others the
// bias's.
template <class T, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    add_parts_kernel(const __grid_constant__ WgradArguments args,
                     const __grid_constant__ Strides filter, int32_t filter_blocks,
                     T* __restrict__ grad_filter, T* __restrict__ grad_bias) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const bool writes = threadIdx.x < kLanes;
  if (static_cast<int32_t>(blockIdx.x) >= filter_blocks) {
    const int64_t k = (int64_t{blockIdx.x} - filter_blocks) * kLanes + lane;
    const bool exists = k < int64_t{args.groups} * args.rows;
    const int64_t at = k / args.rows * args.padded_rows + k % args.rows;
    const float sum = sum_parts<kSlices>(args.bias_partial + at, args.bias_part_floats(),
                                         exists ? args.splits : 0);
    if (exists && writes) grad_bias[k] = T(sum);
    return;
  }
  const int64_t first = (int64_t{blockIdx.x} * kLanes + lane) * 4;
  const int64_t part_floats = args.part_floats();
  const float4 sum = sum_parts<kSlices>(reinterpret_cast<const float4*>(args.partial + first),
                                        part_floats / 4, first < part_floats ? args.splits : 0);
  if (first >= part_floats || !writes) return;
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

template <class T, int kSlices>
void launch(const WgradArguments& args, const Strides& filter, T* grad_filter, T* grad_bias,
            cudaStream_t stream) {
  constexpr int64_t kLanes = kReduceThreads / kSlices;
  const int64_t filter_blocks = ceil_div(args.part_floats() / 4, kLanes);
  const int64_t bias_blocks =
      grad_bias == nullptr ? 0 : ceil_div(int64_t{args.groups} * args.rows, kLanes);
  add_parts_kernel<T, kSlices>
      <<<static_cast<unsigned>(filter_blocks + bias_blocks), kReduceThreads, 0, stream>>>(
          args, filter, static_cast<int32_t>(filter_blocks), grad_filter, grad_bias);
  check_launch("sm90 pointwise wgrad sums");
}

}  // namespace

template <class T>
void launch_add_parts(const WgradArguments& args, const Strides& filter, T* grad_filter,
                      T* grad_bias, cudaStream_t stream) {
  const auto launch_slices = args.splits < kManyParts ? launch<T, 1> : launch<T, kManySlices>;
  launch_slices(args, filter, grad_filter, grad_bias, stream);
}

template void launch_add_parts(const WgradArguments&, const Strides&, __half*, __half*,
                               cudaStream_t);
template void launch_add_parts(const WgradArguments&, const Strides&, __nv_bfloat16*,
                               __nv_bfloat16*, cudaStream_t);

}  // namespace haloconv::sm90::pointwise
