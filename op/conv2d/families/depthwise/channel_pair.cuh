// Two neighbouring channels of a pixel, and what is done to their sums on the way to memory.
#pragma once

#include <type_traits>

#include "conv2d/device/fuse.cuh"
#include "conv2d/epilogue/fusion.h"

namespace haloconv::depthwise {

template <class T>
using PairOf = std::conditional_t<sizeof(T) == 4, float2, uint32_t>;

__device__ __forceinline__ float2 unpack_pair(float2 pair, const float*) { return pair; }
__device__ __forceinline__ float2 unpack_pair(uint32_t pair, const __nv_bfloat16*) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000)};
}
__device__ __forceinline__ float2 unpack_pair(uint32_t pair, const __half*) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

// From shared memory, both together.
template <class T>
__device__ __forceinline__ float2 load_pair(const T* at) {
  return unpack_pair(*reinterpret_cast<const PairOf<T>*>(at), at);
}

template <class T>
__device__ __forceinline__ void store_pair(T* at, const float2& values) {
  const T pair[] = {static_cast<T>(values.x), static_cast<T>(values.y)};
  PairOf<T> word;
  memcpy(&word, pair, sizeof(word));
  *reinterpret_cast<PairOf<T>*>(at) = word;
}

struct PairPlace {
  bool exists;
  int64_t at;  // of the first channel
};

template <class Arguments, class T>
__device__ __forceinline__ void store_pair(const Arguments& args, T* at, int32_t channels,
                                           const float2& values) {
  if (args.by_pairs) {
    store_pair(at, values);
  } else {
    store(at, values.x);
    if (channels == 2) store(at + 1, values.y);
  }
}

// One of sums that stay in registers, by its number.
template <int kFirst, int kEnd, int kCount>
__device__ __forceinline__ float2 sum_of(const float2 (&sums)[kCount], int32_t i) {
  if constexpr (kEnd - kFirst == 1) {
    return sums[kFirst];
  } else {
    constexpr int kMiddle = (kFirst + kEnd) / 2;
    return i < kMiddle ? sum_of<kFirst, kMiddle>(sums, i) : sum_of<kMiddle, kEnd>(sums, i);
  }
}

// Two values of a per-channel operand.
template <class T>
__device__ __forceinline__ float2 factors_of(const void* operand, int32_t channel, int32_t channels,
                                             float otherwise) {
  return {load_or<T>(operand, channel, otherwise),
          channels == 2 ? load_or<T>(operand, channel + 1, otherwise) : otherwise};
}

// Writes what comes of a thread's sums, of pixels at place_of(i); two channels, or one.
template <bool kFused, template <class> class Arguments, class T, int kCount, class PlaceOf>
__device__ __forceinline__ void write_pairs(const Arguments<T>& args, int32_t channel,
                                            int32_t channels, const float2 (&sums)[kCount],
                                            PlaceOf place_of) {
  const float2 bias = factors_of<T>(args.bias, channel, channels, -0.0f);
  if constexpr (!kFused) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const PairPlace place = place_of(i);
      if (!place.exists) continue;
      store_pair(args, args.destination + place.at, channels,
                 {sums[i].x + bias.x, sums[i].y + bias.y});
    }
  } else {
    const Fusion& fusion = args.fusion;
    const float2 scale = factors_of<T>(fusion.scale, channel, channels, 1.0f);
    const float2 shift = factors_of<T>(fusion.shift, channel, channels, -0.0f);
    const auto write = [&](int32_t i, const float2& sum, auto activate) {
      const PairPlace place = place_of(i);
      if (!place.exists) return;
      const void* const residual =
          fusion.residual == nullptr ? nullptr : static_cast<const T*>(fusion.residual) + place.at;
      const float2 added = factors_of<T>(residual, 0, channels, -0.0f);
      store_pair(args, args.destination + place.at, channels,
                 {activate((sum.x + bias.x) * scale.x + shift.x + added.x),
                  activate((sum.y + bias.y) * scale.y + shift.y + added.y)});
    };
    // Unrolled what most networks have; all others' code would be long.
    const ActivationKind kind = fusion.activation.kind;
    if (kind == ActivationKind::kNone || kind == ActivationKind::kRelu) {
      const float low = kind == ActivationKind::kRelu ? 0.0f : -INFINITY;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        write(i, sums[i], [&](float value) { return value < low ? low : value; });
      }
    } else if (kind == ActivationKind::kSilu) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        write(i, sums[i], [](float value) { return value * activations::sigmoid(value); });
      }
    } else {
#pragma unroll 1
      for (int32_t i = 0; i < kCount; ++i) {
        write(i, sum_of<0, kCount>(sums, i), [&](float value) {
          with_activation(fusion.activation, [&](auto activate) { value = activate(value); });
          return value;
        });
      }
    }
  }
}

}  // namespace haloconv::depthwise
