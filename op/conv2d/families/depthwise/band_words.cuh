// Words of two values of a 16-bit type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace haloconv::depthwise {

// word * 0 + sum, of both values: 0 as long as each word was finite.
template <class T>
__device__ __forceinline__ uint32_t times_zero_plus(uint32_t word, uint32_t sum);
template <>
__device__ __forceinline__ uint32_t times_zero_plus<__nv_bfloat16>(uint32_t word, uint32_t sum) {
  asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0));
  return sum;
}
template <>
__device__ __forceinline__ uint32_t times_zero_plus<__half>(uint32_t word, uint32_t sum) {
  asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0));
  return sum;
}

template <class T>
__device__ __forceinline__ T of_bits(uint16_t bits) {
  T value;
  memcpy(&value, &bits, sizeof(value));
  return value;
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

inline constexpr uint32_t kSigns = 0x80008000, kMagnitudes = 0x7fff7fff;

// Both halves become 0xffff where their highest bit is set, else 0. __byte_perm() does not repeat
// signs.
__device__ __forceinline__ uint32_t mask_of_signs(uint32_t word) {
  uint32_t mask;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(mask) : "r"(word));
  return mask;
}

// Masks of the values that are infinite or NaN, and of those that are NaN: those whose magnitude,
// as an integer, is infinity's or greater.
template <class T>
inline constexpr uint32_t kInfinity = std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;
template <class T>
__device__ __forceinline__ uint32_t nonfinite_mask(uint32_t word) {
  return mask_of_signs((word & kMagnitudes) + (0x8000 - kInfinity<T>)*0x10001);
}
template <class T>
__device__ __forceinline__ uint32_t nan_mask(uint32_t word) {
  return mask_of_signs((word & kMagnitudes) + (0x7fff - kInfinity<T>)*0x10001);
}

// The signs of values that are not NaN, in float16: 1, -1, or 0 of zeros. To tell zeros, bits can
// be compared as if they were float16. Volatile, so that the compiler keeps none for a later
// iteration.
__device__ __forceinline__ uint32_t signs_as_half(uint32_t word) {
  uint32_t signs;
  asm volatile(
      "{.reg .b32 ones;\n"
      "set.neu.f16x2.f16x2 ones, %1, %2;\n"
      "lop3.b32 %0, ones, %1, %3, 0xf8;}\n"  // ones | (word & kSigns)
      : "=r"(signs)
      : "r"(word), "r"(0), "r"(kSigns));
  return signs;
}

}  // namespace haloconv::depthwise
