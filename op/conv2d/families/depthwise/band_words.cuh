// Words of two values of a 16-bit type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace haloconv::depthwise {

// Whether one of four words has a NaN; also where their sum has one.
__device__ __forceinline__ bool may_have_nan(const uint32_t (&words)[4], const __nv_bfloat16*) {
  __nv_bfloat162 pairs[4];
  memcpy(pairs, words, sizeof(pairs));
  const __nv_bfloat162 sum = __hadd2(__hadd2(pairs[0], pairs[1]), __hadd2(pairs[2], pairs[3]));
  return !__hbeq2(sum, sum);
}
__device__ __forceinline__ bool may_have_nan(const uint32_t (&words)[4], const __half*) {
  __half2 pairs[4];
  memcpy(pairs, words, sizeof(pairs));
  const __half2 sum = __hadd2(__hadd2(pairs[0], pairs[1]), __hadd2(pairs[2], pairs[3]));
  return !__hbeq2(sum, sum);
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
