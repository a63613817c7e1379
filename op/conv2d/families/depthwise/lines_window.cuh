// What neighbouring outputs of a line meet of the source, in a thread's registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "conv2d/device/accumulator.cuh"
#include "conv2d/families/depthwise/lines.h"

namespace haloconv::depthwise {

template <class T>
inline constexpr int kLineElements = line_elements(sizeof(T));

// Which element of its 16 bytes that one is.
template <class T>
__device__ __forceinline__ int32_t vector_phase(const T* at) {
  return static_cast<int32_t>(reinterpret_cast<uintptr_t>(at) / sizeof(T) % kLineElements<T>);
}

// The elements of a word.
template <class T>
__device__ __forceinline__ float element_of(uint32_t word, int index) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(index == 0 ? word << 16 : word & 0xffff0000);
  } else {
    const __half2 both = *reinterpret_cast<const __half2*>(&word);
    return index == 0 ? __low2float(both) : __high2float(both);
  }
}

// kCount neighbours of a line, from any element on. They come as the vectors that hold them, as
// they are: of 16 bytes in which the line begins what precedes it comes too, and is taken for zero
// as all is that lies beside the line. Behind its end nothing is read.
template <class T, int kCount>
class LineWindow {
 public:
  // Brings the first `count`, or none if not `wanted`, from `position` on, of a line of `size`
  // elements. The others are zero, or what the line has there.
  __device__ __forceinline__ void load(const T* line, int32_t size, int32_t position, int32_t count,
                                       bool wanted) {
    shift_ = (vector_phase(line) + position) & (kElements - 1);
    first_ = position - shift_;
    const int32_t last = wanted ? min(position + count, size) : -kElements;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int32_t at = first_ + i * kElements;
      uint32_t* const to = words_ + i * kWordsOfVector;
      const bool is_wanted = at > -kElements && at < last;
      if (is_wanted && at + kElements <= size) {
        const uint4 vector = __ldg(reinterpret_cast<const uint4*>(line + at));
        to[0] = vector.x;
        to[1] = vector.y;
        to[2] = vector.z;
        to[3] = vector.w;
      } else {
#pragma unroll
        for (int j = 0; j < kWordsOfVector; ++j) to[j] = 0;
        if (!is_wanted) continue;
#pragma unroll
        for (int j = 0; j < kWordsOfVector; ++j) {
          to[j] = end_word(line, size, at + j * kElementsOfWord);
        }
      }
    }
  }

  __device__ __forceinline__ void read(float (&values)[kCount]) {
    if (first_ < 0) clear_before_line();
    move<kElements / 2>();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = element_of<T>(words_[i / kElementsOfWord], i % kElementsOfWord);
    }
  }

 private:
  static constexpr int kElements = kLineElements<T>;
  static constexpr int kWordsOfVector = 4, kElementsOfWord = kElements / kWordsOfVector;
  static constexpr int kVectors = (kElements - 1 + kCount + kElements - 1) / kElements;
  static constexpr int kWords = kVectors * kWordsOfVector;

  // A word of a vector in which the line ends.
  static __device__ __forceinline__ uint32_t end_word(const T* line, int32_t size, int32_t at) {
    if (at > -kElementsOfWord && at + kElementsOfWord <= size) {
      return __ldg(reinterpret_cast<const uint32_t*>(line + at));
    }
    if constexpr (kElementsOfWord == 2) {
      if (at >= 0 && at < size) return __ldg(reinterpret_cast<const uint16_t*>(line + at));
    }
    return 0;
  }

  __device__ __forceinline__ void clear_before_line() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int32_t at = first_ + i * kElementsOfWord;
      if (at <= -kElementsOfWord) {
        words_[i] = 0;
      } else if (at < 0) {
        words_[i] &= 0xffff0000;
      }
    }
  }

  // Moves the wanted elements to the front: by a power of two and those below it.
  template <int kDistance>
  __device__ __forceinline__ void move() {
    if constexpr (kDistance >= kElementsOfWord) {
      constexpr int kStep = kDistance / kElementsOfWord;
      const bool moves = (shift_ & kDistance) != 0;
#pragma unroll
      for (int i = 0; i + kStep < kWords; ++i) words_[i] = moves ? words_[i + kStep] : words_[i];
      move<kDistance / 2>();
    } else if constexpr (kDistance == 1) {
      const uint32_t bits = (shift_ & 1) * 16;
#pragma unroll
      for (int i = 0; i + 1 < kWords; ++i) {
        words_[i] = __funnelshift_r(words_[i], words_[i + 1], bits);
      }
    }
  }

  uint32_t words_[kWords];
  int32_t first_, shift_;  // the first vector's first element on the line, and the first wanted one
};

}  // namespace haloconv::depthwise
