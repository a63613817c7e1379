// The sums of wgrad's runs, added in their order, become the filter's gradient and the bias's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/nonfinite_repair.cuh"
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/first_layers/instances.h"
#include "conv2d/families/first_layers/sum_place.h"
#include "conv2d/geometry/integers.h"
#include "cuda/check.h"

namespace haloconv::sm90::first_layers {

namespace {

constexpr int kMathThreads = kMathGroups * 128;

constexpr int kReduceBlocks = 8;  // of a multiprocessor at least: repairs shall not cost any

// A lane adds one sum of a math thread.
template <class T>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    add_runs_kernel(const __grid_constant__ WgradArguments args, int32_t columns, int32_t rows) {
  constexpr int kLanes = kReduceThreads / kManySlices;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t of_tile = rows * columns / 2 * kMathThreads;
  const int32_t all = args.channel_tiles * of_tile;
  const int32_t at = static_cast<int32_t>(blockIdx.x) * kLanes + lane;  // (tile, sum, thread)
  const float sum =
      sum_partials<kManySlices>(args.partial + at, all, at < all ? args.sweep.runs : 0);
  if (threadIdx.x >= kLanes) return;
  const int32_t in_tile = at % of_tile;
  const SumPlace place(args, columns, at / of_tile, in_tile / kMathThreads, in_tile % kMathThreads);
  const bool stores = at < all && place.is_filter;
  const FilterElement element = {place.k, place.c, place.r, place.s};
  if (stores) static_cast<T*>(args.grad_filter)[args.filter_offset(element)] = T(sum);
  if (at < all && place.is_bias) static_cast<T*>(args.grad_bias)[place.k] = T(sum);
  if (args.reaches_beyond && __any_sync(~0u, stores && isnan(sum))) {
    repair_element<T>(args, element, stores, {args.partial + at, all});
  }
}

}  // namespace

void launch_add_runs(DataType type, const WgradArguments& args, int32_t columns, int32_t rows,
                     cudaStream_t stream) {
  constexpr int64_t kLanes = kReduceThreads / kManySlices;
  static_assert(kLanes == 32, "a whole warp stores, and repairs");
  const int64_t all = int64_t{args.channel_tiles} * (rows * columns / 2) * kMathThreads;
  const auto blocks = static_cast<unsigned>(ceil_div(all, kLanes));
  if (type == DataType::kFloat16) {
    add_runs_kernel<__half><<<blocks, kReduceThreads, 0, stream>>>(args, columns, rows);
  } else {
    add_runs_kernel<__nv_bfloat16><<<blocks, kReduceThreads, 0, stream>>>(args, columns, rows);
  }
  check_launch("sm90 first_layers sums");
}

}  // namespace haloconv::sm90::first_layers
