// What the depthwise kernels share: rectangles of planes come to shared memory, and threads read
// their rows. Elements of 16 bits: packed_cells.cuh.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/families/depthwise/bring.cuh"
#include "conv2d/families/depthwise/rows.h"

namespace haloconv::depthwise {

// A rectangle of planes.
struct Rectangle {
  int32_t h, w;           // its first row and column, which may be outside
  int32_t height, width;  // of the planes
  int32_t rows, columns, planes;
  int64_t step;  // from a row to the next in memory

  __device__ __forceinline__ bool has_row(int32_t row) const {
    return static_cast<uint32_t>(h + row) < static_cast<uint32_t>(height);
  }
};

// The windows of outputs from (h, w) on.
__device__ __forceinline__ Rectangle windows_of(const Depthwise& d, int32_t h, int32_t w,
                                                int32_t planes, int64_t step) {
  return {.h = d.h.advance(h) + d.h.origin,
          .w = d.w.advance(w) + d.w.origin,
          .height = d.h.source_size,
          .width = d.w.source_size,
          .rows = d.h.window,
          .columns = d.w.window,
          .planes = planes,
          .step = step};
}

// A thread's outputs in a block's tile, thread_rows of a column.
struct DepthwiseThread {
  int32_t plane, h, w;
  int32_t index, of_plane;  // of the plane's threads; how many they are

  __device__ __forceinline__ DepthwiseThread(const Depthwise& d, int32_t thread_rows) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t rows = d.threads_w.quotient(thread);
    plane = d.threads_h.quotient(rows);
    h = (rows - plane * d.h.threads) * thread_rows;
    w = (thread - rows * d.w.threads) * kDepthwiseColumns;
    of_plane = d.w.threads * d.h.threads;
    index = thread - plane * of_plane;
  }
};

// Each row by some lanes. What lies beside the planes becomes zero. plane(i) is where the i-th
// begins.
template <class PlaneOf>
__device__ __forceinline__ void bring(const Depthwise& d, const Rectangle& r,
                                      const DepthwiseCells& cells, const DepthwiseThread&,
                                      float* shared, PlaneOf plane) {
  const int32_t left = min(max(-r.w, 0), cells.pitch);
  const int32_t right = max(min(r.width - r.w, cells.pitch), left);
  const auto lane = static_cast<int32_t>(threadIdx.x) % kDepthwiseLanes;
  const int32_t loader = static_cast<int32_t>(threadIdx.x) / kDepthwiseLanes;
  const int32_t first_plane = d.row_loaders_div.quotient(loader);
  if (first_plane >= d.plane_loaders) return;
  const int32_t first_row = loader - first_plane * d.row_loaders;
  const int32_t first = lane - left;
  for (int32_t i = first_plane; i < r.planes; i += d.plane_loaders) {
    const float* const from = plane(i) + (r.w + lane);
    float* const to = shared + i * cells.plane_pitch + lane;
    for (int32_t row = first_row; row < r.rows; row += d.row_loaders) {
      const uint32_t count = r.has_row(row) ? right - left : 0;
      float* const of_row = to + row * cells.pitch;
      const float* const pixels = from + (r.h + row) * r.step;
#pragma unroll 2
      for (int32_t column = 0; column < cells.pitch; column += kDepthwiseLanes) {
        bring<uint32_t>(of_row + column, pixels + column,
                        static_cast<uint32_t>(first + column) < count);
      }
    }
  }
}

// kCount neighbours, from kAlignment floats on.
template <int kAlignment, int kCount>
__device__ __forceinline__ void read_row(const float* from, float (&row)[kCount]) {
  static_assert(kCount % kAlignment == 0);
  struct alignas(kAlignment * sizeof(float)) Neighbours {
    float values[kAlignment];
  };
#pragma unroll
  for (int i = 0; i < kCount; i += kAlignment) {
    const auto some = *reinterpret_cast<const Neighbours*>(from + i);
#pragma unroll
    for (int j = 0; j < kAlignment; ++j) row[i + j] = some.values[j];
  }
}

template <int kCount>
inline constexpr int kRoundedTo4 = (kCount + 3) / 4 * 4;

// A thread's part of a rectangle: the rows of the i-th plane from `row` on, kCount neighbours from
// `column` on, a multiple of kAlignment.
template <class T, int kCount, int kAlignment>
class RowsOf;
template <int kCount, int kAlignment>
class RowsOf<float, kCount, kAlignment> {
 public:
  __device__ __forceinline__ RowsOf(const Rectangle&, const DepthwiseCells& cells,
                                    const float* shared, const float*, int32_t i, int32_t row,
                                    int32_t column)
      : rows_(shared + i * cells.plane_pitch + row * cells.pitch + column), pitch_(cells.pitch) {}

  // The row that lies so much further.
  __device__ __forceinline__ void read(int32_t row, float (&values)[kCount]) const {
    float rounded[(kCount + kAlignment - 1) / kAlignment * kAlignment];
    read_row<kAlignment>(rows_ + row * pitch_, rounded);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = rounded[i];
  }

 private:
  const float* rows_;
  int32_t pitch_;
};

}  // namespace haloconv::depthwise
