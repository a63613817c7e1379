// Copies from global to shared memory that are made as a whole or not at all.
#pragma once

#include <cstdint>

namespace haloconv {

// kBytes, or zeros, for which nothing is read. It takes fewer instructions than copy_async_bytes(),
// whose bytes may be any.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zeros(uint32_t to, const void* from, bool exists) {
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n"
        ".reg .pred ignored;\n"
        "setp.eq.b32 ignored, %2, 0;\n"
        "cp.async.cg.shared.global [%0], [%1], 16, ignored;\n"
        "}\n" ::"r"(to),
        "l"(from), "r"(static_cast<int32_t>(exists))
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred ignored;\n"
        "setp.eq.b32 ignored, %3, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], %2, ignored;\n"
        "}\n" ::"r"(to),
        "l"(from), "n"(kBytes), "r"(static_cast<int32_t>(exists))
        : "memory");
  }
}

}  // namespace haloconv
