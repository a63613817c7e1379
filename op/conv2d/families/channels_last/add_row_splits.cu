// The splits' sums, added in their order, become results whose rows are innermost: rows.h.
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/channels_last/rows.h"
#include "conv2d/families/channels_last/scheduler.cuh"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int kPixelsAtOnce = 4;  // of a channel, that a lane adds

// `quads`: of a channel of all images.
template <int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    add_row_splits_kernel(const __grid_constant__ RowArguments rows, const FastDiv quads) {
  constexpr int kLanes = kReduceThreads / kSlices;
  allow_dependents();
  wait_for_kernel_before();
  const SplitArguments& shares = rows.shares;
  const Arguments& args = shares.args;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int64_t all = int64_t{args.results.channels} * quads.divisor;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;
  const bool exists = at < all;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(shares.partial) + at,
                                           all, exists ? shares.splits : 0);
  if (!exists || threadIdx.x >= kLanes) return;
  const FastDiv& plane = args.phase[0].plane;
  const int32_t channel = quads.quotient(static_cast<int32_t>(at));
  const int32_t number = (static_cast<int32_t>(at) - channel * quads.divisor) * kPixelsAtOnce;
  const int32_t image = plane.quotient(number);
  float* const to = static_cast<float*>(args.results.to) + image * args.destination_n +
                    channel * rows.destination_c + number - image * plane.divisor;
  *reinterpret_cast<float4*>(to) = sum;
}

}  // namespace

void launch_add_row_splits(const RowArguments& args, CUstream_st* stream) {
  const SplitArguments& shares = args.shares;
  const int64_t quads = shares.args.phase[0].pixels / kPixelsAtOnce;
  with_slices(shares.splits, [&]<int kSlices>() {
    constexpr int kLanes = kReduceThreads / kSlices;
    launch_dependent(add_row_splits_kernel<kSlices>,
                     grid_blocks(ceil_div(shares.args.results.channels * quads, kLanes)),
                     kReduceThreads, 0, stream, "sm90 channels_last row splits", args,
                     FastDiv(quads));
  });
}

}  // namespace haloconv::sm90::channels_last
