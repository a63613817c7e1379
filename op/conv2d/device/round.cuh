// Rounding of operands.
#pragma once

#include <cstdint>
#include <type_traits>

namespace haloconv {

// To nearest, ties away from zero, as cuDNN rounds. Left to itself the tensor core truncates.
__device__ __forceinline__ uint32_t round_to_tf32(float value) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return rounded;
}

// float32 is multiplied as TF32, rounded to nearest; other types as they are.
template <class T>
__device__ __forceinline__ void round_operand(uint32_t (&words)[4]) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (uint32_t& word : words) word = round_to_tf32(__uint_as_float(word));
  }
}

}  // namespace haloconv
