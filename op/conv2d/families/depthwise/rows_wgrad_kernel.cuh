// wgrad of groups with one channel: a block has one channel of the output gradient and walks over
// tiles of its planes. A thread keeps sums of all weights over its pixels; then the block's are
// added in a fixed order.
#pragma once

#include "conv2d/families/depthwise/packed_cells.cuh"
#include "conv2d/families/depthwise/rows_tile.cuh"
#include "conv2d/families/depthwise/warp_sum.cuh"

namespace haloconv::depthwise {

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
    h = (rows - images * d.h.tiles) * d.h.threads * kDepthwiseWgradRows;
    image = images * d.tile_planes;
    planes = min(d.tile_planes, d.planes - image);
  }
};

// A tile of one channel, and how it comes to a stage.
template <class T>
struct DepthwiseWgradStage {
  const Depthwise& d;
  const DepthwiseCells& of_grads;
  Rectangle windows, grads;
  const T *input, *grad_output;     // the channel's in the tile's first image
  int64_t input_step, output_step;  // from an image to the next
  T *window_cells, *grad_cells;

  __device__ __forceinline__ DepthwiseWgradStage(const DepthwiseWgradArguments<T>& args,
                                                 int32_t channel, const DepthwiseWgradTile& tile,
                                                 T* stage)
      : d(args.shape.d),
        of_grads(args.shape.grads),
        windows(windows_of(d, tile.h, tile.w, tile.planes, args.input_at.h)),
        grads({.h = tile.h,
               .w = tile.w,
               .height = d.h.outputs,
               .width = d.w.outputs,
               .rows = d.h.threads * kDepthwiseWgradRows,
               .columns = d.w.threads * kDepthwiseColumns,
               .planes = tile.planes,
               .step = args.output_at.h}),
        input(args.input + tile.image * args.input_at.n +
              d.rows.quotient(channel) * args.input_at.c),
        grad_output(args.grad_output + tile.image * args.output_at.n + channel * args.output_at.c),
        input_step(args.input_at.n),
        output_step(args.output_at.n),
        window_cells(stage),
        grad_cells(stage + args.shape.grads_at) {}

  __device__ __forceinline__ const T* input_of(int32_t plane) const {
    return input + plane * input_step;
  }
  __device__ __forceinline__ const T* grad_output_of(int32_t plane) const {
    return grad_output + plane * output_step;
  }
  __device__ __forceinline__ void bring_all(const DepthwiseThread& at) const {
    bring(d, windows, d.windows, at, window_cells, [&](int32_t i) { return input_of(i); });
    bring(d, grads, of_grads, at, grad_cells, [&](int32_t i) { return grad_output_of(i); });
  }
};

template <int kTaps>
struct WeightSums {
  float weights[kTaps][kTaps];
  float bias;
};

// Adds a thread's pixels. Pixels that do not exist are left out: their gradients are zero, which
// times an infinity would be NaN.
template <int kTaps, int kStep, class T>
__device__ __forceinline__ void add_pixels(const DepthwiseWgradStage<T>& stage,
                                           const DepthwiseThread& at, int32_t rows, int32_t columns,
                                           WeightSums<kTaps>& sums) {
  float grads[kDepthwiseWgradRows][kDepthwiseColumns];
  const RowsOf<T, kDepthwiseColumns, kDepthwiseColumns> grad(
      stage.grads, stage.of_grads, stage.grad_cells, stage.grad_output_of(at.plane), at.plane, at.h,
      at.w);
#pragma unroll
  for (int t = 0; t < kDepthwiseWgradRows; ++t) {
    grad.read(t, grads[t]);
#pragma unroll
    for (int x = 0; x < kDepthwiseColumns; ++x) sums.bias += grads[t][x];
  }
  constexpr int kCells = (kDepthwiseColumns - 1) * kStep + kTaps;
  const RowsOf<T, kCells, kDepthwiseColumns> window(stage.windows, stage.d.windows,
                                                    stage.window_cells, stage.input_of(at.plane),
                                                    at.plane, at.h * kStep, at.w * kStep);
#pragma unroll
  for (int j = 0; j < (kDepthwiseWgradRows - 1) * kStep + kTaps; ++j) {
    float source[kCells];
    window.read(j, source);
#pragma unroll
    for (int t = 0; t < kDepthwiseWgradRows; ++t) {
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
  const DepthwiseThread at(d, kDepthwiseWgradRows);
  WeightSums<kTaps> sums = {};

  T* const stages = reinterpret_cast<T*>(depthwise_shared);
  const auto stage_of = [&](int32_t i, const DepthwiseWgradTile& tile) {
    return DepthwiseWgradStage<T>(args, channel, tile,
                                  stages + (i - first) % kDepthwiseStages * g.stage);
  };

  stage_of(first, DepthwiseWgradTile(d, first)).bring_all(at);
  commit_copies();
  for (int32_t i = first; i < last; ++i) {
    if (i + 1 < last) stage_of(i + 1, DepthwiseWgradTile(d, i + 1)).bring_all(at);
    commit_copies();
    wait_for_all_but<1>();
    const DepthwiseWgradTile tile(d, i);
    const DepthwiseWgradStage<T> stage = stage_of(i, tile);
    __syncthreads();
    const int32_t rows = min(kDepthwiseWgradRows, d.h.outputs - tile.h - at.h);
    const int32_t columns = min(kDepthwiseColumns, d.w.outputs - tile.w - at.w);
    if (at.plane < tile.planes && rows > 0 && columns > 0) {
      add_pixels<kTaps, kStep>(stage, at, rows, columns, sums);
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

}  // namespace haloconv::depthwise
