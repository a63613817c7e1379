// Copies from global to shared memory of what the L1 cache keeps too: neighbouring blocks, or the
// same one soon, copy it again.
#pragma once

#include <cstdint>

namespace haloconv {

// 16 bytes, or zeros unless `inside`.
__device__ __forceinline__ void copy_async_cached(uint32_t to, const void* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

// The same; without `wanted` nothing is written.
__device__ __forceinline__ void copy_async_cached_if(bool wanted, uint32_t to, const void* from,
                                                     bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %3, 0;\n"
      "@wanted cp.async.ca.shared.global [%0], [%1], 16, %2;\n"
      "}\n" ::"r"(to),
      "l"(from), "r"(inside ? 16 : 0), "r"(static_cast<int32_t>(wanted))
      : "memory");
}

}  // namespace haloconv
