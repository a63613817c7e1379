// wgrad for groups of few rows and columns (depthwise): a block sums kDirectColumns columns of one
// row over its pixels, first each thread alone, then all in a fixed order.
#pragma once

#include "conv2d/families/generic/plan.h"
#include "conv2d/families/generic/wgrad_tile.cuh"

namespace haloconv::generic {

template <class T>
__global__ void __launch_bounds__(kDirectThreads)
    wgrad_direct_kernel(const __grid_constant__ WgradArguments<T> args) {
  using Acc = AccumulatorOf<T>;
  constexpr int kColumns = kDirectColumns;
  constexpr int kWarps = kDirectThreads / 32;
  const Wgrad& g = args.geometry;
  const WgradTile at(args, 1, kColumns);
  const int64_t first_pixel = at.split * args.split_pixels;
  const int32_t pixels = static_cast<int32_t>(min(args.split_pixels, g.pixels - first_pixel));
  const PixelRange range(first_pixel, g.plane, g.q);
  const T* input = args.input + int64_t{at.group} * g.channels * g.input.c;
  const T* grad_output = args.grad_output + (int64_t{at.group} * g.rows + at.row) * g.output.c;

  __shared__ Site taps[kColumns];
  __shared__ Acc sums[kWarps][kColumns];
  if (threadIdx.x < kColumns) taps[threadIdx.x] = wgrad_column(g, at.column + threadIdx.x);
  __syncthreads();

  Acc acc[kColumns] = {};
  for (int32_t first = 0; first < pixels; first += kPartialPixels * kDirectThreads) {
    const int32_t last = min(pixels - first, kPartialPixels * kDirectThreads) + first;
    Acc part[kColumns] = {};
    for (int32_t local = first + threadIdx.x; local < last; local += kDirectThreads) {
      const Pixel pixel = range[local];
      const Acc grad = load(grad_output + wgrad_output_pixel(g, pixel).offset);
      const Site at_input = wgrad_input_pixel(g, pixel);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const Site tap = taps[i];
        Acc value = gather_element(input, at_input, tap, g.h, g.w);
        if (tap.h == kOne) value = Acc(1);
        part[i] += grad * value;
      }
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) acc[i] += part[i];
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    for (int distance = 16; distance > 0; distance /= 2) {
      acc[i] += __shfl_down_sync(~0u, acc[i], distance);
    }
    if (lane == 0) sums[warp][i] = acc[i];
  }
  __syncthreads();
  const int32_t column = at.column + threadIdx.x;
  if (threadIdx.x >= kColumns || column >= g.columns) return;
  Acc sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += sums[i][threadIdx.x];
  args.partial[at.partial_offset(g) + int64_t{at.row} * g.columns + column] = sum;
}

}  // namespace haloconv::generic
