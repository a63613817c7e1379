// wgrad of groups with one channel, channels innermost: a block has some channels and goes down
// tiles of pixels. A thread keeps sums of all weights over its strips' pixels; then the block's are
// added in a fixed order.
#pragma once

#include "conv2d/families/depthwise/strip.cuh"

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
struct StripWeightSums {
  float weights[kTaps][kTaps];
  float bias;
};

// The sums of a block's channels; an odd distance, so that lanes meet different banks.
template <int kTaps>
struct BlockSums {
  float of_channel[kStripLanes][kTaps * kTaps + 2];
};

template <class T>
__device__ __forceinline__ PixelRows<T> grads_of(const DepthwiseNhwcWgradArguments<T>& args,
                                                 const StripTile& tile, int32_t first_channel) {
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
          .pixels = d.w.threads * kStripColumns,
          .channels = d.channels.divisor - first_channel,
          .by_16_bytes = args.by_16_bytes};
}

// Adds a tile's pixels. Those that do not exist are left out: their gradients are zero, which times
// an infinity would be NaN.
template <class T, int kTaps, int kStep>
__device__ __forceinline__ void add_tile(const DepthwiseNhwcWgradArguments<T>& args,
                                         const StripTile& tile, const StripThread& at,
                                         int32_t first_channel, T* stages,
                                         StripWeightSums<kTaps>& sums) {
  const DepthwiseNhwc& d = args.shape;
  constexpr int kRows = kMetRows<kTaps, kStep>, kWidth = kStripWidth<kTaps, kStep>;
  const int32_t columns = at.columns(d, tile);
  PixelRows<T> window =
      window_of(d, tile, first_channel, args.input, args.input_at, args.by_16_bytes);
  PixelRows<T> coming = grads_of(args, tile, first_channel);
  float grads[kRows][kStripColumns] = {};
  // Unrolled, the largest filter's loop does not fit in the instruction cache.
  walk<kTaps, kStep, kTaps == 7 ? 1 : kRows>(
      d, at, tile.rows, stages,
      [&](int32_t output, T* stage) {
#pragma unroll
        for (int i = 0; i < kStep; ++i) window.bring_next(stage + i * d.w.window * kStripLanes);
        if (output < tile.rows) coming.bring_next(stage + d.grads_at);
      },
      [] {},
      [&](const T* stage) {
        const T* const pixels =
            stage + d.grads_at + at.strip * (kStripColumns * kStripLanes) + at.lane;
#pragma unroll
        for (int x = 0; x < kStripColumns; ++x) {
          grads[kRows - 1][x] = static_cast<float>(pixels[x * kStripLanes]);
          sums.bias += grads[kRows - 1][x];
        }
      },
      [&](const float (&row)[kWidth], int a, int tap) {
        const auto add = [&](int x) {
#pragma unroll
          for (int i = 0; i < kTaps; ++i) sums.weights[tap][i] += grads[a][x] * row[x * kStep + i];
        };
        if (columns == kStripColumns) {  // mostly: one test for all
#pragma unroll
          for (int x = 0; x < kStripColumns; ++x) add(x);
        } else {
#pragma unroll
          for (int x = 0; x < kStripColumns - 1; ++x) {
            if (x < columns) add(x);
          }
        }
      },
      [] {},
      [&] {
#pragma unroll
        for (int a = 0; a + 1 < kRows; ++a) {
#pragma unroll
          for (int x = 0; x < kStripColumns; ++x) grads[a][x] = grads[a + 1][x];
        }
      });
  __syncthreads();  // the next tile's rows come to the same stages
}

template <class T, int kTaps, int kStep>
__global__ void __launch_bounds__(kStripThreads, kStripBlocks<kTaps>)
    depthwise_nhwc_wgrad_kernel(const __grid_constant__ DepthwiseNhwcWgradArguments<T> args) {
  const DepthwiseNhwc& d = args.shape;
  extern __shared__ __align__(16) unsigned char depthwise_nhwc_shared[];
  const int32_t split = d.channel_tiles.quotient(static_cast<int32_t>(blockIdx.x));
  const int32_t first_channel =
      (static_cast<int32_t>(blockIdx.x) - split * d.channel_tiles.divisor) * kStripLanes;
  const StripThread at(first_channel);
  const int32_t first = split * args.split_tiles, last = min(first + args.split_tiles, d.tiles);
  StripWeightSums<kTaps> sums = {};
  for (int32_t i = first; i < last; ++i) {
    add_tile<T, kTaps, kStep>(args, StripTile(d, i), at, first_channel,
                              reinterpret_cast<T*>(depthwise_nhwc_shared), sums);
  }

  auto& block = *reinterpret_cast<BlockSums<kTaps>*>(depthwise_nhwc_shared);
  float* const own = block.of_channel[at.lane];
  for (int32_t strip = 0; strip < d.w.threads; ++strip) {
    if (strip == at.strip) {
      const auto add = [&](int i, float sum) { own[i] = strip == 0 ? sum : own[i] + sum; };
#pragma unroll
      for (int i = 0; i < kTaps * kTaps; ++i) add(i, sums.weights[i / kTaps][i % kTaps]);
      add(kTaps * kTaps, sums.bias);
    }
    __syncthreads();
  }
  const int32_t channels = min(kStripLanes, d.channels.divisor - first_channel);
  float* const to =
      args.partial + (int64_t{split} * d.channels.divisor + first_channel) * args.columns;
  for (int32_t channel = at.strip; channel < channels; channel += d.w.threads) {
    for (int32_t i = at.lane; i < args.columns; i += kStripLanes) {
      to[channel * args.columns + i] = block.of_channel[channel][i];
    }
  }
}

}  // namespace haloconv::depthwise
