// Words of two values of a 16-bit type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

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

template <class T>
__device__ __forceinline__ uint32_t pack(float first, float second) {
  const T values[] = {static_cast<T>(first), static_cast<T>(second)};
  uint32_t word;
  memcpy(&word, values, sizeof(word));
  return word;
}

}  // namespace haloconv::depthwise
