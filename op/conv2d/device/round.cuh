// Rounding of operands.
#pragma once

#include <cstdint>

namespace haloconv {

// To nearest, ties away from zero, as cuDNN rounds. Left to itself the tensor core truncates.
__device__ __forceinline__ uint32_t round_to_tf32(float value) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return rounded;
}

}  // namespace haloconv
