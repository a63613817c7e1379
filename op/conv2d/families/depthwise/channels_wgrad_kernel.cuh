// wgrad of groups with one channel, channels innermost: a block has some channels and goes down
// tiles of pixels. A thread keeps sums of all weights over its spans' pixels; then the block's are
// added in a fixed order.
#pragma once

#include "conv2d/families/depthwise/span.cuh"

namespace haloconv::depthwise {

template <class T>
struct DepthwiseNhwcWgradArguments {
  const T* input;
  const T* grad_output;
  // (split, channel, weight, and then the bias gradient if there is a column for it)
  float* partial;
  DepthwiseNhwc shape;
  Strides input_at, output_at;
  bool by_16_bytes;     // both tensors may be read so
  int32_t columns;      // weights and bias gradient
  int32_t split_tiles;  // of a block
};

template <int kTaps>
struct SpanWeightSums {
  float weights[kTaps][kTaps];
  float bias;
};

// The sums of a block's channels; an odd distance, so that lanes meet different banks.
template <int kTaps>
struct BlockSums {
  float of_channel[kSpanLanes][kTaps * kTaps + 2];
};

template <int kTaps, class T>
__device__ __forceinline__ PixelRows<T, span_elements_at_once(kTaps)> grads_of(
    const DepthwiseNhwcWgradArguments<T>& args, const SpanTile& tile, int32_t first_channel) {
  const DepthwiseNhwc& d = args.shape;
  const Strides& strides = args.output_at;
  return {.at = args.grad_output + tile.image * strides.n + tile.h * strides.h +
                tile.w * strides.w + first_channel,
          .step_h = strides.h,
          .step_w = strides.w,
          .row = tile.h,
          .height = d.h.outputs,
          .column = tile.w,
          .width = d.w.outputs,
          .pixels = d.w.threads * kSpanColumns,
          .channels = d.channels.divisor - first_channel,
          .by_16_bytes = args.by_16_bytes};
}

// Adds a tile's pixels. Those that do not exist are left out: their gradients are zero, which times
// an infinity would be NaN.
template <class T, int kTaps, int kStep>
__device__ __forceinline__ void add_tile(const DepthwiseNhwcWgradArguments<T>& args,
                                         const SpanTile& tile, const SpanThread& at,
                                         int32_t first_channel, T* stages,
                                         SpanWeightSums<kTaps>& sums) {
  const DepthwiseNhwc& d = args.shape;
  constexpr int kRows = kMetRows<kTaps, kStep>, kWidth = kSpanWidth<kTaps, kStep>;
  const int32_t columns = at.columns(d, tile);
  auto window =
      window_of<kTaps>(d, tile, first_channel, args.input, args.input_at, args.by_16_bytes);
  auto coming = grads_of<kTaps>(args, tile, first_channel);
  float grads[kRows][kSpanColumns] = {};
  // Unrolled, the largest filter's loop does not fit in the instruction cache.
  walk<kTaps, kStep, kTaps == 7 ? 1 : kRows>(
      d, at, tile.rows, stages,
      [&](int32_t output, T* stage) {
#pragma unroll
        for (int i = 0; i < kStep; ++i) window.bring_next(stage + i * d.w.window * kSpanLanes);
        if (output < tile.rows) coming.bring_next(stage + d.grads_at);
      },
      [] {},
      [&](const T* stage) {
        const T* const pixels =
            stage + d.grads_at + at.span * (kSpanColumns * kSpanLanes) + at.lane;
#pragma unroll
        for (int x = 0; x < kSpanColumns; ++x) {
          grads[kRows - 1][x] = static_cast<float>(pixels[x * kSpanLanes]);
          sums.bias += grads[kRows - 1][x];
        }
      },
      [&](const float (&row)[kWidth], int a, int tap) {
        const auto add = [&](int x) {
#pragma unroll
          for (int i = 0; i < kTaps; ++i) sums.weights[tap][i] += grads[a][x] * row[x * kStep + i];
        };
        if (columns == kSpanColumns) {  // mostly: one test for all
#pragma unroll
          for (int x = 0; x < kSpanColumns; ++x) add(x);
        } else {
#pragma unroll
          for (int x = 0; x < kSpanColumns - 1; ++x) {
            if (x < columns) add(x);
          }
        }
      },
      [] {},
      [&] {
#pragma unroll
        for (int a = 0; a + 1 < kRows; ++a) {
#pragma unroll
          for (int x = 0; x < kSpanColumns; ++x) grads[a][x] = grads[a + 1][x];
        }
      });
  __syncthreads();  // the next tile's rows come to the same stages
}

template <class T, int kTaps, int kStep>
__global__ void __launch_bounds__(kSpanThreads, kSpanBlocks<kTaps>)
    depthwise_nhwc_wgrad_kernel(const __grid_constant__ DepthwiseNhwcWgradArguments<T> args) {
  const DepthwiseNhwc& d = args.shape;
  extern __shared__ __align__(16) unsigned char depthwise_nhwc_shared[];
  const int32_t split = d.channel_tiles.quotient(static_cast<int32_t>(blockIdx.x));
  const int32_t first_channel =
      (static_cast<int32_t>(blockIdx.x) - split * d.channel_tiles.divisor) * kSpanLanes;
  const SpanThread at(first_channel);
  const int32_t first = split * args.split_tiles, last = min(first + args.split_tiles, d.tiles);
  SpanWeightSums<kTaps> sums = {};
  for (int32_t i = first; i < last; ++i) {
    add_tile<T, kTaps, kStep>(args, SpanTile(d, i), at, first_channel,
                              reinterpret_cast<T*>(depthwise_nhwc_shared), sums);
  }

  auto& block = *reinterpret_cast<BlockSums<kTaps>*>(depthwise_nhwc_shared);
  float* const own = block.of_channel[at.lane];
  for (int32_t span = 0; span < d.w.threads; ++span) {
    if (span == at.span) {
      const auto add = [&](int i, float sum) { own[i] = span == 0 ? sum : own[i] + sum; };
#pragma unroll
      for (int i = 0; i < kTaps * kTaps; ++i) add(i, sums.weights[i / kTaps][i % kTaps]);
      add(kTaps * kTaps, sums.bias);
    }
    __syncthreads();
  }
  const int32_t channels = min(kSpanLanes, d.channels.divisor - first_channel);
  float* const to =
      args.partial + (int64_t{split} * d.channels.divisor + first_channel) * args.columns;
  for (int32_t channel = at.span; channel < channels; channel += d.w.threads) {
    for (int32_t i = at.lane; i < args.columns; i += kSpanLanes) {
      to[channel * args.columns + i] = block.of_channel[channel][i];
    }
  }
}

}  // namespace haloconv::depthwise
