// What the depthwise kernels for tensors with channels innermost share. Rows of pixels are brought
// to a ring in shared memory, and each warp goes down a span of columns with one channel a lane.
#pragma once

#include <type_traits>

#include "conv2d/device/accumulator.cuh"
#include "conv2d/families/depthwise/bring_words.cuh"
#include "conv2d/families/depthwise/channels.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

// Of a multiprocessor: as many as leave a thread registers for a filter and its sums.
template <int kTaps>
inline constexpr int kSpanBlocks = kTaps <= 4 ? 3 : 2;

// A block's tile: `rows` outputs' rows from (h, w) on.
struct SpanTile {
  int32_t image, h, w, rows;

  __device__ __forceinline__ SpanTile(const DepthwiseNhwc& d, int32_t tile) {
    const int32_t row_tiles = d.tiles_w.quotient(tile);
    image = d.tiles_h.quotient(row_tiles);
    w = (tile - row_tiles * d.w.tiles) * d.w.threads * kSpanColumns;
    h = (row_tiles - image * d.h.tiles) * d.tile_rows;
    rows = min(d.tile_rows, d.h.outputs - h);
  }
};

// A thread's channel, and its span of a tile.
struct SpanThread {
  int32_t lane, span, channel;

  __device__ __forceinline__ explicit SpanThread(int32_t first_channel)
      : lane(static_cast<int32_t>(threadIdx.x) % kSpanLanes),
        span(static_cast<int32_t>(threadIdx.x) / kSpanLanes),
        channel(first_channel + lane) {}

  // Outputs that exist of a row; none without the channel.
  __device__ __forceinline__ int32_t columns(const DepthwiseNhwc& d, const SpanTile& tile) const {
    if (channel >= d.channels.divisor) return 0;
    return min(kSpanColumns, d.w.outputs - tile.w - span * kSpanColumns);
  }
};

// Neighbouring pixels of a tensor's rows, which come to shared memory one row after the other.
template <class T, int kAtOnce>
struct PixelRows {
  const T* at;  // the first channel of the next row's first pixel, which may be outside
  int64_t step_h, step_w;
  int32_t row, height;
  int32_t column, width;
  int32_t pixels;    // of a row
  int32_t channels;  // that exist
  bool by_16_bytes;  // or one by one

  // (pixel, channel); zero beside the tensor.
  __device__ __forceinline__ void bring_next(T* shared) {
    if (by_16_bytes) {
      bring_row<uint4>(shared);
    } else {
      bring_row<BitsOf<T>>(shared);
    }
    ++row;
    at += step_h;
  }

 private:
  template <class Word>
  __device__ __forceinline__ void bring_row(T* shared) const {
    constexpr int kElements = sizeof(Word) / sizeof(T);
    constexpr int kWords = kSpanLanes / kElements;  // of a pixel
    const int32_t right = static_cast<uint32_t>(row) < static_cast<uint32_t>(height) ? width : 0;
    bring_words<1, kAtOnce>(reinterpret_cast<Word*>(shared), pixels * kWords, [&](int32_t i) {
      const int32_t pixel = i / kWords, channel = i % kWords * kElements;
      const bool inside = static_cast<uint32_t>(column + pixel) < static_cast<uint32_t>(right) &&
                          channel < channels;
      return WordPlace{at + pixel * step_w + channel, inside};
    });
  }
};

// Of a tile's window.
template <int kTaps, class T>
__device__ __forceinline__ PixelRows<T, span_elements_at_once(kTaps)> window_of(
    const DepthwiseNhwc& d, const SpanTile& tile, int32_t first_channel, const T* source,
    const Strides& strides, bool by_16_bytes) {
  const int32_t row = tile.h * d.h.step + d.h.origin, column = tile.w * d.w.step + d.w.origin;
  return {
      .at = source + tile.image * strides.n + row * strides.h + column * strides.w + first_channel,
      .step_h = strides.h,
      .step_w = strides.w,
      .row = row,
      .height = d.h.source_size,
      .column = column,
      .width = d.w.source_size,
      .pixels = d.w.window,
      .channels = d.channels.divisor - first_channel,
      .by_16_bytes = by_16_bytes};
}

// Outputs of a column that a row of the window can meet.
template <int kTaps, int kStep>
inline constexpr int kMetRows = (kTaps + kStep - 1) / kStep;
template <int kTaps, int kStep>
inline constexpr int kSpanWidth = (kSpanColumns - 1) * kStep + kTaps;

// Of a tile's outputs, those that meet some rows of the window: the first ones, all that can, the
// last ones.
enum class Met { kFirst, kAll, kLast };

// Goes down a tile's rows. bring_rows(youngest, stage) brings the rows of the window that an output
// is the first to meet. When the first ones have come, and what the caller has on its way: start().
// When they have come: begin(stage) if there is that output; meet(row, a, tap) for each of these
// rows and the outputs that meet it by a row of the filter, where a counts from the oldest of the
// kMetRows outputs; end() if the oldest is one of the tile's; shift(), after which the oldest is
// forgotten.
template <int kTaps, int kStep, int kUnrolled, class T, class BringRows, class Start, class Begin,
          class Meet, class End, class Shift>
__device__ __forceinline__ void walk(const DepthwiseNhwc& d, const SpanThread& at, int32_t rows,
                                     T* shared, BringRows bring_rows, Start start, Begin begin,
                                     Meet meet, End end, Shift shift) {
  constexpr int kRows = kMetRows<kTaps, kStep>, kWidth = kSpanWidth<kTaps, kStep>;
  const int32_t last = rows + kRows - 1;
  const int32_t span = at.span * (kSpanColumns * kStep * kSpanLanes) + at.lane;
  const auto go = [&]<Met kMet>(int32_t youngest) {
    wait_for_all_but<kSpanStages - 2>();
    __syncthreads();
    const int32_t coming = youngest + kSpanStages - 1;
    if (coming < last) bring_rows(coming, shared + coming % kSpanStages * d.stage);
    commit_copies();
    const T* const stage = shared + youngest % kSpanStages * d.stage;
    if (kMet == Met::kAll || (kMet == Met::kFirst && youngest < rows)) begin(stage);
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const T* const pixels = stage + i * d.w.window * kSpanLanes + span;
      float row[kWidth];
#pragma unroll
      for (int x = 0; x < kWidth; ++x) row[x] = static_cast<float>(pixels[x * kSpanLanes]);
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        const int age = kRows - 1 - a, tap = age * kStep + i;
        if (tap >= kTaps) continue;
        const bool is_met = static_cast<uint32_t>(youngest - age) < static_cast<uint32_t>(rows);
        if (kMet == Met::kAll || is_met) meet(row, a, tap);
      }
    }
    if (kMet != Met::kFirst) end();
    shift();
  };

#pragma unroll
  for (int i = 0; i < kSpanStages - 1; ++i) {
    if (i < last) bring_rows(i, shared + i * d.stage);
    commit_copies();
  }
  wait_for_all_but<kSpanStages - 2>();
  __syncthreads();
  start();
  int32_t youngest = 0;
#pragma unroll 1
  for (; youngest < kRows - 1; ++youngest) go.template operator()<Met::kFirst>(youngest);
#pragma unroll kUnrolled
  for (; youngest < rows; ++youngest) go.template operator()<Met::kAll>(youngest);
#pragma unroll 1
  for (; youngest < last; ++youngest) go.template operator()<Met::kLast>(youngest);
}

}  // namespace haloconv::depthwise
