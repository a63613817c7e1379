// Words of two values of a 16-bit type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace haloconv::depthwise {

// word * 0 + sum, of both values: 0 as long as each word was finite.
template <class T>
__device__ __forceinline__ uint32_t times_zero_plus(uint32_t word, uint32_t sum) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0));
  }
  return sum;
}

// The same word. The compiler sees another each time, so that it keeps nothing that follows from it
// for a later iteration.
__device__ __forceinline__ uint32_t hidden(uint32_t word) {
  asm volatile("" : "+r"(word));
  return word;
}

// The same word, which the compiler then keeps in a register where it might compute it again in
// every iteration.
__device__ __forceinline__ uint32_t kept(uint32_t word) { return hidden(word); }

inline constexpr uint32_t kMagnitudes = 0x7fff7fff;

// The instruction that __byte_perm() is named after. That does not repeat signs, and takes another
// instruction for a selector that is not known to the compiler.
__device__ __forceinline__ uint32_t permuted(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t word;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(selector));
  return word;
}

// Both halves become 0xffff where their highest bit is set, else 0.
__device__ __forceinline__ uint32_t mask_of_signs(uint32_t word) {
  return permuted(word, 0, 0xbb99);
}

// Of both values, the highest bit says whether the magnitude, as an integer, is at least that.
template <uint32_t kLeast>
__device__ __forceinline__ uint32_t at_least(uint32_t word) {
  return (word & kMagnitudes) + (0x8000 - kLeast) * 0x10001;
}

// A mask of the values that are infinite or NaN.
template <class T>
inline constexpr uint32_t kInfinity = std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;
template <class T>
__device__ __forceinline__ uint32_t nonfinite_mask(uint32_t word) {
  return mask_of_signs(at_least<kInfinity<T>>(word));
}

}  // namespace haloconv::depthwise
