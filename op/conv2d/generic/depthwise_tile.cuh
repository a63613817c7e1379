// What the depthwise kernels share: rectangles of planes come to shared memory, and threads read
// their rows.
#pragma once

#include "conv2d/depthwise.h"
#include "conv2d/generic/bring.cuh"
#include "conv2d/generic/element.cuh"

namespace haloconv::generic {

// Zero unless `inside`.
__device__ __forceinline__ void bring(float* to, const float* from, bool inside) {
  bring<uint32_t>(to, from, inside);
}
template <class T>
__device__ __forceinline__ void bring(float* to, const T* from, bool inside) {
  *to = inside ? load(from) : 0;
}

// A rectangle of planes, and where it lies in shared memory.
struct Rectangle {
  int32_t h, w;           // its first row and column, which may be outside
  int32_t height, width;  // of the planes
  int32_t rows, pitch;    // its rows are as long as their distance in shared memory
  int32_t planes, plane_pitch;
};

// The windows of outputs from (h, w) on.
__device__ __forceinline__ Rectangle windows_of(const Depthwise& d, int32_t h, int32_t w,
                                                int32_t planes) {
  return {.h = h * d.h.step + d.h.origin,
          .w = w * d.w.step + d.w.origin,
          .height = d.h.source_size,
          .width = d.w.source_size,
          .rows = d.h.window,
          .pitch = d.pitch,
          .planes = planes,
          .plane_pitch = d.plane_pitch};
}

// Each row by some lanes. What lies beside the planes becomes zero. plane(i) is where the i-th
// begins, rows are `step` apart.
template <class T, class PlaneOf>
__device__ __forceinline__ void bring(const Depthwise& d, const Rectangle& r, int64_t step,
                                      float* shared, PlaneOf plane) {
  const int32_t left = min(max(-r.w, 0), r.pitch);
  const int32_t right = max(min(r.width - r.w, r.pitch), left);
  const auto lane = static_cast<int32_t>(threadIdx.x) % kDepthwiseLanes;
  const int32_t loader = static_cast<int32_t>(threadIdx.x) / kDepthwiseLanes;
  const int32_t first_plane = d.row_loaders_div.quotient(loader);
  if (first_plane >= d.plane_loaders) return;
  const int32_t first_row = loader - first_plane * d.row_loaders;
  const int32_t first = lane - left;
  for (int32_t i = first_plane; i < r.planes; i += d.plane_loaders) {
    const T* const from = plane(i) + (r.w + lane);
    float* const to = shared + i * r.plane_pitch + lane;
    for (int32_t row = first_row; row < r.rows; row += d.row_loaders) {
      const bool inside = static_cast<uint32_t>(r.h + row) < static_cast<uint32_t>(r.height);
      const uint32_t count = inside ? right - left : 0;
      float* const cells = to + row * r.pitch;
      const T* const pixels = from + (r.h + row) * step;
#pragma unroll 2
      for (int32_t column = 0; column < r.pitch; column += kDepthwiseLanes) {
        bring(cells + column, pixels + column, static_cast<uint32_t>(first + column) < count);
      }
    }
  }
}

// kCount neighbours, from 16 bytes on.
template <int kCount>
__device__ __forceinline__ void read_row(const float* from, float (&row)[kCount]) {
  static_assert(kCount % 4 == 0);
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const auto four = *reinterpret_cast<const float4*>(from + i);
    row[i] = four.x, row[i + 1] = four.y, row[i + 2] = four.z, row[i + 3] = four.w;
  }
}

template <int kCount>
inline constexpr int kRoundedTo4 = (kCount + 3) / 4 * 4;

// A thread's outputs in a block's tile.
struct DepthwiseThread {
  int32_t plane, h, w;

  __device__ __forceinline__ explicit DepthwiseThread(const Depthwise& d) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t rows = d.threads_w.quotient(thread);
    plane = d.threads_h.quotient(rows);
    h = (rows - plane * d.h.threads) * kDepthwiseRows;
    w = (thread - rows * d.w.threads) * kDepthwiseColumns;
  }
};

}  // namespace haloconv::generic
