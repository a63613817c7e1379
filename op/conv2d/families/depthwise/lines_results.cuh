// The sums of lines on their way to the output.
#pragma once

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

template <class T, int kVectors>
using LineSums = float[kVectors][kLineElements<T>];

// Replaces sums by results; part(u) is what exists of a vector. Those of a vector go through by
// fours, the same code for all, so that each activation's is there once.
template <class T, int kVectors, class PartOf>
__device__ __forceinline__ void fuse_lines(const LinesArguments<T>& args, int32_t channel,
                                           int64_t line, LineSums<T, kVectors>& sums, PartOf part) {
  constexpr int kFours = kLineElements<T> / kFusedAtOnce, kAll = kVectors * kFours;
  static_assert(kLineElements<T> % kFusedAtOnce == 0);
  const Fusion& fusion = args.fusion;
  const float scale = load_or<T>(fusion.scale, channel, 1.0f);
  const float shift = load_or<T>(fusion.shift, channel, -0.0f);
  const auto value = [&](int i) -> float& {
    return sums[i / kLineElements<T>][i % kLineElements<T>];
  };
#pragma unroll 1
  for (int four = 0; four < kAll; ++four) {
    LinePart of = part(four / kFours);
    of.first += four % kFours * kFusedAtOnce;
    float values[kFusedAtOnce];
#pragma unroll
    for (int x = 0; x < kFusedAtOnce; ++x) {
      const void* const residual = of.has(x) ? fusion.residual : nullptr;
      values[x] = value(x) * scale + shift + load_or<T>(residual, line + of.first + x, -0.0f);
    }
    with_activation<float>(fusion.activation, [&](auto activation) {
#pragma unroll
      for (float& result : values) result = activation(result);
    });
    // The next ones come to the front, these to the end.
#pragma unroll
    for (int i = 0; i < (kAll - 1) * kFusedAtOnce; ++i) value(i) = value(i + kFusedAtOnce);
#pragma unroll
    for (int x = 0; x < kFusedAtOnce; ++x) value((kAll - 1) * kFusedAtOnce + x) = values[x];
  }
}

// A vector from `to` on, which is at a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void store_vector(T* to, const LinePart& part,
                                             const float (&values)[kLineElements<T>]) {
  struct alignas(16) Vector {
    T elements[kLineElements<T>];
  };
  if (part.has_all<kLineElements<T>>()) {
    Vector vector;
#pragma unroll
    for (int x = 0; x < kLineElements<T>; ++x) vector.elements[x] = static_cast<T>(values[x]);
    *reinterpret_cast<Vector*>(to) = vector;
    return;
  }
#pragma unroll
  for (int x = 0; x < kLineElements<T>; ++x) {
    if (part.has(x)) to[x] = static_cast<T>(values[x]);
  }
}

}  // namespace haloconv::depthwise
