// wgrad of groups with one channel: a block has one channel of the output gradient and walks over
// tiles of its planes. A thread keeps sums of all weights over its pixels; then the block's are
// added in a fixed order.
#pragma once

#include "conv2d/generic/arguments.cuh"
#include "conv2d/generic/depthwise_tile.cuh"

namespace haloconv::generic {

template <class T>
struct DepthwiseWgradArguments {
  const T* input;
  const T* grad_output;
  float*
      partial;  // (split, channel, weight, and then the bias gradient if there is a column for it)
  DepthwiseWgrad shape;
  Strides input_at, output_at;
  int32_t columns;      // weights and bias gradient
  int32_t split_tiles;  // of a block
};

// A block's tile: a channel's, of some images.
struct DepthwiseWgradTile {
  int32_t h, w, image, planes;

  __device__ __forceinline__ DepthwiseWgradTile(const Depthwise& d, int32_t index) {
    const int32_t rows = d.tiles_w.quotient(index);
    const int32_t images = d.tiles_h.quotient(rows);
    w = (index - rows * d.w.tiles) * d.w.threads * kDepthwiseColumns;
    h = (rows - images * d.h.tiles) * d.h.threads * kDepthwiseRows;
    image = images * d.tile_planes;
    planes = min(d.tile_planes, d.planes - image);
  }
};

template <class T>
__device__ __forceinline__ void bring_tile(const DepthwiseWgradArguments<T>& args, int32_t channel,
                                           int32_t index, float* stage) {
  const Depthwise& d = args.shape.d;
  const DepthwiseWgradTile tile(d, index);
  const Rectangle windows = windows_of(d, tile.h, tile.w, tile.planes);
  const T* const input = args.input + d.rows.quotient(channel) * args.input_at.c;
  bring<T>(d, windows, args.input_at.h, stage,
           [&](int32_t i) { return input + (tile.image + i) * args.input_at.n; });
  const Rectangle grads = {.h = tile.h,
                           .w = tile.w,
                           .height = d.h.outputs,
                           .width = d.w.outputs,
                           .rows = d.h.threads * kDepthwiseRows,
                           .pitch = args.shape.grad_pitch,
                           .planes = tile.planes,
                           .plane_pitch = args.shape.grad_plane_pitch};
  const T* const grad_output = args.grad_output + channel * args.output_at.c;
  bring<T>(d, grads, args.output_at.h, stage + args.shape.grads_at,
           [&](int32_t i) { return grad_output + (tile.image + i) * args.output_at.n; });
}

template <int kTaps>
struct WeightSums {
  float weights[kTaps][kTaps];
  float bias;
};

// Adds a thread's pixels. Pixels that do not exist are left out: their gradients are zero, which
// times an infinity would be NaN.
template <int kTaps, int kStep>
__device__ __forceinline__ void add_pixels(const DepthwiseWgrad& g, const float* stage,
                                           const DepthwiseThread& at, int32_t rows, int32_t columns,
                                           WeightSums<kTaps>& sums) {
  const Depthwise& d = g.d;
  float grads[kDepthwiseRows][kDepthwiseColumns];
  const float* grad =
      stage + g.grads_at + at.plane * g.grad_plane_pitch + at.h * g.grad_pitch + at.w;
#pragma unroll
  for (int t = 0; t < kDepthwiseRows; ++t, grad += g.grad_pitch) {
    read_row(grad, grads[t]);
#pragma unroll
    for (int x = 0; x < kDepthwiseColumns; ++x) sums.bias += grads[t][x];
  }
  const float* window = stage + at.plane * d.plane_pitch + at.h * kStep * d.pitch + at.w * kStep;
#pragma unroll
  for (int j = 0; j < (kDepthwiseRows - 1) * kStep + kTaps; ++j, window += d.pitch) {
    float source[kRoundedTo4<(kDepthwiseColumns - 1) * kStep + kTaps>];
    read_row(window, source);
#pragma unroll
    for (int t = 0; t < kDepthwiseRows; ++t) {
      const int tap = j - t * kStep;
      if (tap < 0 || tap >= kTaps || t >= rows) continue;
#pragma unroll
      for (int x = 0; x < kDepthwiseColumns; ++x) {
        if (x >= columns) continue;
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          sums.weights[tap][i] += grads[t][x] * source[x * kStep + i];
        }
      }
    }
  }
}

// The sum of a warp's, in its first lane.
__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(~0u, value, distance);
  }
  return value;
}

template <class T, int kTaps, int kStep>
__global__ void __launch_bounds__(kDepthwiseThreads)
    depthwise_wgrad_kernel(const __grid_constant__ DepthwiseWgradArguments<T> args) {
  const DepthwiseWgrad& g = args.shape;
  const Depthwise& d = g.d;
  extern __shared__ __align__(16) float depthwise_shared[];
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t split = d.channels.quotient(block);
  const int32_t channel = block - split * d.channels.divisor;
  const int32_t first = split * args.split_tiles, last = min(first + args.split_tiles, g.tiles);
  const DepthwiseThread at(d);
  WeightSums<kTaps> sums = {};

  bring_tile(args, channel, first, depthwise_shared);
  commit_copies();
  for (int32_t i = first; i < last; ++i) {
    const int32_t stage = (i - first) % kDepthwiseStages * g.stage;
    if (i + 1 < last) bring_tile(args, channel, i + 1, depthwise_shared + (g.stage - stage));
    commit_copies();
    wait_for_all_but<1>();
    __syncthreads();
    const DepthwiseWgradTile tile(d, i);
    const int32_t rows = min(kDepthwiseRows, d.h.outputs - tile.h - at.h);
    const int32_t columns = min(kDepthwiseColumns, d.w.outputs - tile.w - at.w);
    if (at.plane < tile.planes && rows > 0 && columns > 0) {
      add_pixels<kTaps, kStep>(g, depthwise_shared + stage, at, rows, columns, sums);
    }
    __syncthreads();
  }

  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  float* const of_warp = depthwise_shared + warp * (kTaps * kTaps + 1);
#pragma unroll
  for (int i = 0; i < kTaps * kTaps; ++i) {
    const float sum = sum_of_warp(sums.weights[i / kTaps][i % kTaps]);
    if (threadIdx.x % 32 == 0) of_warp[i] = sum;
  }
  const float bias = sum_of_warp(sums.bias);
  if (threadIdx.x % 32 == 0) of_warp[kTaps * kTaps] = bias;
  __syncthreads();
  for (auto i = static_cast<int32_t>(threadIdx.x); i < args.columns;
       i += static_cast<int32_t>(blockDim.x)) {
    float sum = 0;
    for (int32_t j = 0; j < static_cast<int32_t>(blockDim.x) / 32; ++j) {
      sum += depthwise_shared[j * (kTaps * kTaps + 1) + i];
    }
    args.partial[(int64_t{split} * d.channels.divisor + channel) * args.columns + i] = sum;
  }
}

}  // namespace haloconv::generic
