// Rounding of what is an operand of the tensor core and nothing else.
#pragma once

#include <cmath>
#include <cstdint>

namespace haloconv {

// round_to_tf32(), but that the bits behind TF32's are left as they are, since the tensor core does
// not read them: an instruction less. NaN and infinities, to which nothing may be added, stay as
// they are.
__device__ __forceinline__ uint32_t round_for_product(uint32_t bits) {
  constexpr uint32_t kHalf = 1 << 12;
  return fabsf(__uint_as_float(bits)) < INFINITY ? bits + kHalf : bits;
}

}  // namespace haloconv
