#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/unpacked/instances.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::unpacked {

namespace {

template <int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    add_splits_kernel(const __grid_constant__ SplitSums sums) {
  constexpr int kLanes = kReduceThreads / kSlices;
  allow_dependents();
  wait_for_kernel_before();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;
  const bool exists = at < sums.quads;
  float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(sums.partial) + at, sums.quads,
                                     exists ? sums.splits : 0);
  if (!exists || threadIdx.x >= kLanes) return;
  const auto quad = static_cast<int32_t>(at);
  const int32_t plane = sums.plane.quotient(quad), image = sums.channels.quotient(plane);
  const int32_t channel = plane - image * sums.channels.divisor;
  if (sums.bias != nullptr) {
    const float bias = sums.bias[channel];
    add(sum, make_float4(bias, bias, bias, bias));
  }
  float* const to = sums.to + image * sums.image_step + channel * sums.channel_step +
                    int64_t{quad - plane * sums.plane.divisor} * 4;
  *reinterpret_cast<float4*>(to) = sum;
}

}  // namespace

void launch_add_splits(const SplitSums& sums, cudaStream_t stream) {
  with_slices(sums.splits, [&]<int kSlices>() {
    constexpr int64_t kLanes = kReduceThreads / kSlices;
    launch_dependent(add_splits_kernel<kSlices>, grid_blocks(ceil_div(sums.quads, kLanes)),
                     kReduceThreads, 0, stream, "unpacked splits", sums);
  });
}

}  // namespace haloconv::unpacked
