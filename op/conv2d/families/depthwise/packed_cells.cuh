// Rectangles of planes of 16-bit elements in shared memory, as depthwise.h says: whole words come
// from memory without a look at what they hold, and threads take their cells out of them.
#pragma once

#include <type_traits>

#include "conv2d/families/depthwise/rows_tile.cuh"

namespace haloconv::depthwise {

// Which element of its word that one is, or would be.
template <class T>
__device__ __forceinline__ int32_t phase_of(const T* plane, int64_t offset) {
  const auto at = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(plane) / sizeof(T));
  return static_cast<int32_t>((at + static_cast<uint32_t>(offset)) % kDepthwiseWord);
}

// All words that hold some of what exists of the rectangle, those of a plane by the threads that
// have its outputs; plane(i) is where the i-th begins. What follows a run in its last word becomes
// zero, what precedes it comes too.
template <class T, class PlaneOf>
__device__ __forceinline__ void bring(const Depthwise&, const Rectangle& r,
                                      const DepthwiseCells& cells, const DepthwiseThread& at,
                                      T* shared, PlaneOf plane) {
  static_assert(sizeof(T) == 2);
  if (at.plane >= r.planes) return;
  const T* const from = plane(at.plane);
  T* const to = shared + cells.before + at.plane * cells.plane_pitch;
  if (cells.is_dense) {
    const int32_t top = max(r.h, 0), rows = min(r.h + r.rows, r.height) - top;
    if (rows <= 0) return;
    const int64_t offset = top * r.step;
    const int32_t phase = phase_of(from, offset), last = phase + rows * r.width;
    const T* const words = from + (offset - phase);
    for (int32_t i = at.index * kDepthwiseWord; i < last; i += at.of_plane * kDepthwiseWord) {
      bring_first(to + i, words + i, min(last - i, kDepthwiseWord));
    }
    return;
  }
  const int32_t left = max(-r.w, 0), right = min(r.width - r.w, r.columns);
  if (left >= right) return;
  const int32_t words = r.rows * cells.words.divisor;
  for (int32_t i = at.index; i < words; i += at.of_plane) {
    const int32_t row = cells.words.quotient(i);
    if (!r.has_row(row)) continue;
    const int64_t offset = (r.h + row) * r.step + r.w;
    const int32_t phase = phase_of(from, offset);
    const int32_t word = (i - row * cells.words.divisor) * kDepthwiseWord;
    const int32_t count = min(phase + right - word, kDepthwiseWord);
    if (count <= 0 || word + kDepthwiseWord <= phase + left) continue;
    bring_first(to + row * cells.pitch + word, from + (offset + word - phase), count);
  }
}

// The two elements of a word.
template <class T>
__device__ __forceinline__ float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  }
}

template <class T, int kCount, int kAlignment>
class RowsOf {
 public:
  __device__ __forceinline__ RowsOf(const Rectangle& r, const DepthwiseCells& cells,
                                    const T* shared, const T* plane, int32_t i, int32_t row,
                                    int32_t column)
      : words_(reinterpret_cast<const uint32_t*>(shared)),
        at_(cells.before + i * cells.plane_pitch),
        pitch_(cells.pitch),
        row_(r.h + row),
        height_(r.height) {
    if (cells.is_dense) {
      const int32_t top = max(r.h, 0), above = min(top - r.h, r.rows);
      at_ += phase_of(plane, top * r.step) + (row - above) * cells.pitch + r.w + column;
      phase_ = step_ = 0;
    } else {
      at_ += row * cells.pitch + column;
      phase_ = phase_of(plane, (r.h + row) * r.step + r.w);
      step_ = static_cast<int32_t>(r.step % kDepthwiseWord);
    }
    const int32_t first = r.w + column;
    const auto exists = [&](int32_t at) {
      return static_cast<uint32_t>(first + at) < static_cast<uint32_t>(r.width);
    };
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      exist_[pair] = (exists(2 * pair) ? 0xffff : 0) | (exists(2 * pair + 1) ? 0xffff0000 : 0);
    }
  }

  __device__ __forceinline__ void read(int32_t row, float (&values)[kCount]) const {
    const int32_t at = at_ + row * pitch_ + (phase_ + row * step_) % kDepthwiseWord;
    const uint32_t* const words = words_ + (at >> 1);
    const uint32_t shift = (at & 1) * 16;
    const uint32_t exists =
        static_cast<uint32_t>(row_ + row) < static_cast<uint32_t>(height_) ? ~0u : 0;
    uint32_t read[kCount / 2 + 1];
#pragma unroll
    for (int i = 0; i <= kCount / 2; ++i) read[i] = words[i];
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const int i = 2 * pair;
      const uint32_t next = pair < kCount / 2 ? read[pair + 1] : 0;
      const uint32_t both = __funnelshift_r(read[pair], next, shift) & exist_[pair] & exists;
      const float2 cells = unpack<T>(both);
      values[i] = cells.x;
      if (i + 1 < kCount) values[i + 1] = cells.y;
    }
  }

 private:
  static constexpr int kPairs = (kCount + 1) / 2;

  const uint32_t* words_;
  int32_t at_, pitch_;  // elements
  int32_t row_, height_;
  int32_t phase_, step_;    // of rows that are runs
  uint32_t exist_[kPairs];  // of the columns
};

}  // namespace haloconv::depthwise
