// The splits' sums, added in their order, become results: splits.h.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/device/element.cuh"
#include "conv2d/device/fuse_values.cuh"
#include "conv2d/device/sum_partials.cuh"
#include "conv2d/families/channels_last/scheduler.cuh"
#include "conv2d/families/channels_last/splits.h"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int kQuad = 4;  // channels that a lane adds

// Four neighbouring channels of a pixel.
template <class T>
__device__ __forceinline__ void store_quad(T* to, const float (&values)[kQuad]) {
  if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(values[0], values[1], values[2], values[3]);
  } else {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(Element<T>::pair(values[0], values[1]), Element<T>::pair(values[2], values[3]));
  }
}

template <class T, bool kFused, int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    add_splits_kernel(const __grid_constant__ SplitArguments shares, const FastDiv quads) {
  constexpr int kLanes = kReduceThreads / kSlices;
  allow_dependents();
  wait_for_kernel_before();
  const Arguments& args = shares.args;
  const TilePhase& phase = args.phase[0];
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int64_t all = int64_t{phase.pixels} * quads.divisor;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;
  const bool exists = at < all;
  const float4 sum = sum_partials<kSlices>(reinterpret_cast<const float4*>(shares.partial) + at,
                                           all, exists ? shares.splits : 0);
  if (!exists || threadIdx.x >= kLanes) return;
  const int32_t number = quads.quotient(static_cast<int32_t>(at));
  const int32_t channel = (static_cast<int32_t>(at) - number * quads.divisor) * kQuad;
  const Pixel pixel(phase, number);
  const int64_t offset = phase.destination + pixel.image * args.destination_n +
                         pixel.row * args.destination_h + pixel.column * args.destination_w +
                         channel;
  float values[kQuad] = {sum.x, sum.y, sum.z, sum.w};
  if constexpr (kFused) {
    OutputElement elements[kQuad];
#pragma unroll
    for (int i = 0; i < kQuad; ++i) elements[i] = {true, channel + i, offset + i};
    fuse_values<T>(args.results.bias, args.results.fusion, elements, values);
  }
  store_quad(static_cast<T*>(args.results.to) + offset, values);
}

template <class T>
void launch_of_type(const SplitArguments& shares, CUstream_st* stream) {
  static_assert(kQuad == kFusedAtOnce);
  const Arguments& args = shares.args;
  const int64_t quads = args.results.channels / kQuad;
  with_slices(shares.splits, [&]<int kSlices>() {
    const unsigned blocks =
        grid_blocks(ceil_div(args.phase[0].pixels * quads, kReduceThreads / kSlices));
    const auto start = [&](auto kernel) {
      launch_dependent(kernel, blocks, kReduceThreads, 0, stream, "sm90 channels_last splits",
                       shares, FastDiv(quads));
    };
    const bool is_fused = args.results.bias != nullptr || !args.results.fusion.is_none();
    is_fused ? start(add_splits_kernel<T, true, kSlices>)
             : start(add_splits_kernel<T, false, kSlices>);
  });
}

}  // namespace

void launch_add_splits(const SplitArguments& shares, DataType type, CUstream_st* stream) {
  if (type == DataType::kFloat32) {
    launch_of_type<float>(shares, stream);
  } else if (type == DataType::kFloat16) {
    launch_of_type<__half>(shares, stream);
  } else {
    launch_of_type<__nv_bfloat16>(shares, stream);
  }
}

}  // namespace haloconv::sm90::channels_last
