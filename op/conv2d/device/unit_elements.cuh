// Elements that lie anywhere become 16 neighbouring bytes of shared memory by way of registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/device/vector_access.cuh"

namespace haloconv {

template <class T>
using ElementBits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;

// The first `count`, which lie `step` elements apart, and zeros.
template <class T, class Bits, int kCount>
__device__ __forceinline__ void load_elements(const T* from, int64_t step, int32_t count,
                                              Bits (&to)[kCount]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    load_global_bits(from, to[j], j < count);
    from += step;
  }
}

// As words, of which one of a 16-bit type has two neighbours. float32 may be rounded to TF32.
template <bool kRounds, class Bits, int kCount>
__device__ __forceinline__ void pack_elements(const Bits (&from)[kCount], uint32_t (&words)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (sizeof(Bits) == 4) {
      words[j] = kRounds ? round_to_tf32(__uint_as_float(from[j])) : from[j];
    } else {
      words[j] = from[2 * j] | uint32_t{from[2 * j + 1]} << 16;
    }
  }
}

}  // namespace haloconv
