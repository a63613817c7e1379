// fprop and dgrad of groups with one channel, channels innermost: a thread has its channel's filter
// in registers, and sums of the outputs that a row of its window meets.
#pragma once

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/depthwise/span.cuh"

namespace haloconv::depthwise {

template <class T>
struct DepthwiseNhwcArguments {
  const T* source;
  const T* filter;
  const T* bias;  // one value per channel, or null
  T* destination;
  DepthwiseNhwc shape;
  Strides source_at, destination_at;
  int64_t filter_group;  // from a channel to the next
  bool by_16_bytes;      // the source may be read so
  Fusion fusion;
};

// (channel, tap)
template <int kTaps, class T>
__device__ __forceinline__ void bring_filters(const DepthwiseNhwcArguments<T>& args,
                                              int32_t first_channel, T* shared) {
  const DepthwiseNhwc& d = args.shape;
  const int32_t channels = min(kSpanLanes, d.channels.divisor - first_channel);
  const T* const from = args.filter + first_channel * args.filter_group + d.filter_first;
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < channels * kTaps * kTaps;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t channel = i / (kTaps * kTaps), tap = i % (kTaps * kTaps);
    bring<BitsOf<T>>(shared + i,
                     from + channel * args.filter_group + tap / kTaps * d.h.filter_step +
                         tap % kTaps * d.w.filter_step,
                     true);
  }
}

using SpanSums = float[kSpanColumns];

template <class T, bool kFused>
__device__ __forceinline__ void store_span(const DepthwiseNhwcArguments<T>& args, int64_t offset,
                                           int32_t columns, int32_t channel, SpanSums& sums) {
  const int64_t step = args.destination_at.w;
  if constexpr (kFused) {
    static_assert(kSpanColumns == kFusedAtOnce);
    OutputElement elements[kFusedAtOnce];
#pragma unroll
    for (int x = 0; x < kFusedAtOnce; ++x) elements[x] = {x < columns, channel, offset + x * step};
    store_fused(args, sums, elements);
  } else {
    const float bias = args.bias == nullptr || columns <= 0 ? -0.0f : load(args.bias + channel);
#pragma unroll
    for (int x = 0; x < kSpanColumns; ++x) {
      if (x < columns) store(args.destination + offset + x * step, sums[x] + bias);
    }
  }
}

template <class T, int kTaps, int kStep, bool kFused>
__global__ void __launch_bounds__(kSpanThreads, kSpanBlocks<kTaps>)
    depthwise_nhwc_kernel(const __grid_constant__ DepthwiseNhwcArguments<T> args) {
  const DepthwiseNhwc& d = args.shape;
  extern __shared__ __align__(16) unsigned char depthwise_nhwc_shared[];
  T* const stages = reinterpret_cast<T*>(depthwise_nhwc_shared);
  T* const filters = stages + kSpanStages * d.stage;
  const int32_t index = d.channel_tiles.quotient(static_cast<int32_t>(blockIdx.x));
  const int32_t first_channel =
      (static_cast<int32_t>(blockIdx.x) - index * d.channel_tiles.divisor) * kSpanLanes;
  const SpanTile tile(d, index);
  const SpanThread at(first_channel);
  const int32_t columns = at.columns(d, tile);
  bring_filters<kTaps>(args, first_channel, filters);
  constexpr int kRows = kMetRows<kTaps, kStep>, kWidth = kSpanWidth<kTaps, kStep>;
  auto window =
      window_of<kTaps>(d, tile, first_channel, args.source, args.source_at, args.by_16_bytes);
  int64_t offset = tile.image * args.destination_at.n + tile.h * args.destination_at.h +
                   (tile.w + at.span * kSpanColumns) * args.destination_at.w + at.channel;
  float filter[kTaps][kTaps];
  SpanSums sums[kRows] = {};
  // Rolled up where it is fused: activations' code is there once.
  walk<kTaps, kStep, kFused ? 1 : kRows>(
      d, at, tile.rows, stages,
      [&](int32_t, T* stage) {
#pragma unroll
        for (int i = 0; i < kStep; ++i) window.bring_next(stage + i * d.w.window * kSpanLanes);
      },
      [&] {
#pragma unroll
        for (int i = 0; i < kTaps * kTaps; ++i) {
          filter[i / kTaps][i % kTaps] = static_cast<float>(filters[at.lane * (kTaps * kTaps) + i]);
        }
      },
      [](const T*) {},
      [&](const float (&row)[kWidth], int a, int tap) {
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
#pragma unroll
          for (int x = 0; x < kSpanColumns; ++x) sums[a][x] += filter[tap][i] * row[x * kStep + i];
        }
      },
      [&] {
        store_span<T, kFused>(args, offset, columns, at.channel, sums[0]);
        offset += args.destination_at.h;
      },
      [&] {
#pragma unroll
        for (int a = 0; a < kRows; ++a) {
#pragma unroll
          for (int x = 0; x < kSpanColumns; ++x) sums[a][x] = a + 1 < kRows ? sums[a + 1][x] : 0;
        }
      });
}

}  // namespace haloconv::depthwise
