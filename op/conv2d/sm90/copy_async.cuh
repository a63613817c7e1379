// Copies from global to shared memory that no register holds.
#pragma once

#include <cstdint>

namespace haloconv::sm90 {

// kFloats neighbours; zeros unless `inside`.
template <int kFloats>
__device__ __forceinline__ void copy_async(uint32_t to, const float* from, bool inside) {
  if constexpr (kFloats == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(kFloats * 4), "r"(inside ? kFloats * 4 : 0)
                 : "memory");
  }
}

}  // namespace haloconv::sm90
