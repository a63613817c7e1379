// A unit: 16 bytes of a pixel's neighbouring channels, which a thread loads or writes at once.
#pragma once

#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/families/heads/plan.h"

namespace haloconv::heads {

template <class T>
struct Unit {
  static constexpr int kChannels = kUnitBytes / sizeof(T);

  // The value of its i-th channel.
  static __device__ __forceinline__ float value(const uint4& unit, int i) {
    constexpr int kPerWord = Element<T>::kPerWord;
    const uint32_t words[] = {unit.x, unit.y, unit.z, unit.w};
    return Element<T>::value(words[i / kPerWord], i % kPerWord);
  }

  static __device__ __forceinline__ uint4 of(const float (&values)[kChannels]) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kChannels == 4) {
        words[i] = __float_as_uint(values[i]);
      } else {
        words[i] = Element<T>::pair(values[2 * i], values[2 * i + 1]);
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

// The filter's value for an output and an input channel; zero for outputs that do not exist.
template <class T>
__device__ __forceinline__ float weight_at(const Plan& plan, const void* filter, int32_t k,
                                           int32_t c) {
  if (k >= plan.outputs) return 0;
  return Element<T>::to_float(static_cast<const T*>(filter)[k * plan.filter_k + c * plan.filter_c]);
}

template <class T>
__device__ __forceinline__ float bias_at(const void* bias, int32_t channel) {
  if (bias == nullptr) return 0;
  return Element<T>::to_float(static_cast<const T*>(bias)[channel]);
}

}  // namespace haloconv::heads
