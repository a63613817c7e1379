// The sums of lines on their way to the output.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/fuse.cuh"
#include "conv2d/families/depthwise/lines_window.cuh"
#include "conv2d/problem.h"

namespace haloconv::depthwise {

template <class T>
struct LinesArguments {
  const T* source;
  const T* filter;
  const T* bias;  // one value per destination channel, or null
  T* destination;
  Lines shape;
  Strides source_at, destination_at;
  int64_t filter_n, filter_group;  // from a destination channel to the next, from a group
  Fusion fusion;
};

// What of a line's vector from `first` on, where both may lie beside it, exists.
struct LinePart {
  int32_t first, size;

  __device__ __forceinline__ bool has(int i) const {
    return static_cast<uint32_t>(first + i) < static_cast<uint32_t>(size);
  }
  template <int kCount>
  __device__ __forceinline__ bool has_all() const {
    return first >= 0 && first + kCount <= size;
  }
};

// What follows a channel's sums.
template <class T>
struct AfterSums {
  float bias, scale, shift;

  __device__ __forceinline__ AfterSums(const T* bias, const Fusion& fusion, int32_t channel)
      : bias(load_or<T>(bias, channel, -0.0f)),
        scale(load_or<T>(fusion.scale, channel, 1.0f)),
        shift(load_or<T>(fusion.shift, channel, -0.0f)) {}
};

// Replaces sums by results; part(u) is what exists of a vector. Vectors go through the same code
// one after the other, so that each activation's is there once.
template <class T, int kVectors, int kElements, class PartOf>
__device__ __forceinline__ void fuse_lines(const Fusion& fusion, const AfterSums<T>& after,
                                           int64_t line, float (&sums)[kVectors][kElements],
                                           PartOf part) {
#pragma unroll 1
  for (int u = 0; u < kVectors; ++u) {
    const LinePart of = part(u);
    float values[kElements];
#pragma unroll
    for (int x = 0; x < kElements; ++x) {
      const void* const residual = of.has(x) ? fusion.residual : nullptr;
      values[x] =
          sums[0][x] * after.scale + after.shift + load_or<T>(residual, line + of.first + x, -0.0f);
    }
    with_activation<float>(fusion.activation, [&](auto activation) {
#pragma unroll
      for (float& result : values) result = activation(result);
    });
    // The next one comes to the front, this to the end.
#pragma unroll
    for (int x = 0; x < kElements; ++x) {
#pragma unroll
      for (int next = 1; next < kVectors; ++next) sums[next - 1][x] = sums[next][x];
      sums[kVectors - 1][x] = values[x];
    }
  }
}

// A vector from `to` on, which is at a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void store_vector(T* to, const LinePart& part,
                                             const float (&values)[kLineElements<T>]) {
  if (part.has_all<kLineElements<T>>()) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == sizeof(float)) {
        words[i] = __float_as_uint(values[i]);
      } else {
        words[i] = Element<T>::pair(values[2 * i], values[2 * i + 1]);
      }
    }
    // Read by nobody soon: the L2 cache is left to what neighbours read.
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(words[0], words[1], words[2], words[3]));
    return;
  }
#pragma unroll
  for (int x = 0; x < kLineElements<T>; ++x) {
    if (part.has(x)) to[x] = static_cast<T>(values[x]);
  }
}

}  // namespace haloconv::depthwise
