// Copies from global to shared memory that no register holds.
#pragma once

#include <cstdint>

namespace haloconv::sm90 {

// kFloats neighbours, of which the first `inside` are read and the others become zeros.
template <int kFloats>
__device__ __forceinline__ void copy_async_first(uint32_t to, const float* from, int32_t inside) {
  if constexpr (kFloats == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(inside * 4)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                 "n"(kFloats * 4), "r"(inside * 4)
                 : "memory");
  }
}

// All of them or none.
template <int kFloats>
__device__ __forceinline__ void copy_async(uint32_t to, const float* from, bool inside) {
  copy_async_first<kFloats>(to, from, inside ? kFloats : 0);
}

// All of them; without `wanted` nothing is written either.
template <int kFloats>
__device__ __forceinline__ void copy_async_if(bool wanted, uint32_t to, const float* from) {
  if constexpr (kFloats == 4) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %2, 0;\n"
        "@wanted cp.async.cg.shared.global [%0], [%1], 16;\n"
        "}\n" ::"r"(to),
        "l"(from), "r"(static_cast<int32_t>(wanted))
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %3, 0;\n"
        "@wanted cp.async.ca.shared.global [%0], [%1], %2;\n"
        "}\n" ::"r"(to),
        "l"(from), "n"(kFloats * 4), "r"(static_cast<int32_t>(wanted))
        : "memory");
  }
}

// Until this thread's copies have ended.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace haloconv::sm90
