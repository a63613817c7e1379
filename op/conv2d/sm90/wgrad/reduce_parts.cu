#include "conv2d/sm90/wgrad/reduce_parts.h"

#include "conv2d/integers.h"
#include "conv2d/sm90/wgrad/mend.cuh"
#include "cuda_check.h"

namespace haloconv::sm90::wgrad {

namespace {

constexpr int kReduceThreads = 256;
constexpr int kReduceBlocks = 5;  // of a multiprocessor at least: mending shall not cost any

// A thread adds four values of the filter's gradient. Then its block mends those that need it.
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    reduce_filter_kernel(const __grid_constant__ Arguments args,
                         const __grid_constant__ Strides filter, float* __restrict__ grad_filter) {
  const int64_t block_first = int64_t{blockIdx.x} * kReduceThreads * 4;
  const int64_t first = block_first + threadIdx.x * 4;
  const int64_t part_floats = args.part_floats();
  const auto result_of = [&](const FilterElement& e) -> float& {
    return grad_filter[e.k * filter.n + e.c * filter.c + e.r * filter.h + e.s * filter.w];
  };
  bool has_nan = false;
  if (first < part_floats) {
    float4 sum{0, 0, 0, 0};
    const float* at = args.partial + first;
#pragma unroll 8
    for (int32_t part = 0; part < args.parts; ++part, at += part_floats) {
      const float4 value = *reinterpret_cast<const float4*>(at);
      sum.x += value.x;
      sum.y += value.y;
      sum.z += value.z;
      sum.w += value.w;
    }
    const float sums[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const FilterElement e = args.element(first + i);
      if (!e.exists) continue;
      result_of(e) = sums[i];
      has_nan = has_nan || isnan(sums[i]);
    }
  }
  if (!args.has_pixels_beyond() || !__syncthreads_or(has_nan)) return;
  const int64_t end = min(block_first + kReduceThreads * 4, part_floats);
  // A patch's values are 64 rows (output channels) of 8 columns after each other: what is known of
  // a column is so for all its rows. A bit for each column.
  constexpr int kColumns = 8;
  uint32_t known = 0, needed = 0;
#pragma unroll 1
  for (int64_t i = block_first; i < end; ++i) {
    if (i % (kColumns * kRowsOfGroup) == 0) known = 0;
    const FilterElement e = args.element(i);
    if (!e.exists) continue;
    float& result = result_of(e);
    if (!isnan(result)) continue;
    const Mend<kReduceThreads> mend(args, e);
    const uint32_t column = 1u << (e.column % kColumns);
    if ((known & column) == 0) {
      known |= column;
      needed = mend.is_needed() ? needed | column : needed & ~column;
    }
    if ((needed & column) != 0) mend.run(result);
  }
}

__global__ void __launch_bounds__(kReduceThreads)
    reduce_bias_kernel(const __grid_constant__ Arguments args, float* __restrict__ grad_bias) {
  const int64_t k = int64_t{blockIdx.x} * kReduceThreads + threadIdx.x;
  if (k >= int64_t{args.groups} * args.rows) return;
  const int64_t padded_rows = int64_t{args.row_groups()} * kRowsOfGroup;
  const float* at = args.bias_partial + k / args.rows * padded_rows + k % args.rows;
  float sum = 0;
#pragma unroll 8
  for (int32_t part = 0; part < args.parts; ++part, at += args.bias_floats()) sum += *at;
  grad_bias[k] = sum;
}

unsigned blocks_of(int64_t threads) {
  return static_cast<unsigned>(ceil_div(threads, kReduceThreads));
}

}  // namespace

void launch_reduce_parts(const Arguments& args, const Strides& filter, float* grad_filter,
                         float* grad_bias, cudaStream_t stream) {
  reduce_filter_kernel<<<blocks_of(args.part_floats() / 4), kReduceThreads, 0, stream>>>(
      args, filter, grad_filter);
  check_launch("sm90 reduce_filter");
  if (grad_bias == nullptr) return;
  reduce_bias_kernel<<<blocks_of(int64_t{args.groups} * args.rows), kReduceThreads, 0, stream>>>(
      args, grad_bias);
  check_launch("sm90 reduce_bias");
}

}  // namespace haloconv::sm90::wgrad
