// Copies from global to shared memory that no register holds.
#pragma once

#include <cstdint>

namespace haloconv {

// kBytes, of which the first `inside` are read and the others become zeros.
template <int kBytes>
__device__ __forceinline__ void copy_async_bytes(uint32_t to, const void* from, int32_t inside) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(inside)
                 : "memory");
  }
}

// kFloats neighbours, of which the first `inside` are read and the others become zeros.
template <int kFloats>
__device__ __forceinline__ void copy_async_first(uint32_t to, const void* from, int32_t inside) {
  copy_async_bytes<kFloats * 4>(to, from, inside * 4);
}

// As many bytes as kFloats floats have, or zeros.
template <int kFloats>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool inside) {
  copy_async_first<kFloats>(to, from, inside ? kFloats : 0);
}

// Four such copies, to_step and from_step apart. A copy holds its registers until it is issued. In
// one piece of assembly each copy has registers of its own, so that none waits for the one before.
template <int kFloats, class T>
__device__ __forceinline__ void copy_async_4(uint32_t to, int32_t to_step, const T* from,
                                             int64_t from_step, bool inside) {
  const uint32_t to_1 = to + to_step, to_2 = to_1 + to_step, to_3 = to_2 + to_step;
  const T* const from_1 = from + from_step;
  const T* const from_2 = from_1 + from_step;
  const T* const from_3 = from_2 + from_step;
  const int32_t bytes = inside ? kFloats * 4 : 0;
  if constexpr (kFloats == 4) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%4], 16, %8;\n"
        "cp.async.cg.shared.global [%1], [%5], 16, %8;\n"
        "cp.async.cg.shared.global [%2], [%6], 16, %8;\n"
        "cp.async.cg.shared.global [%3], [%7], 16, %8;\n" ::"r"(to),
        "r"(to_1), "r"(to_2), "r"(to_3), "l"(from), "l"(from_1), "l"(from_2), "l"(from_3),
        "r"(bytes)
        : "memory");
  } else {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%4], %9, %8;\n"
        "cp.async.ca.shared.global [%1], [%5], %9, %8;\n"
        "cp.async.ca.shared.global [%2], [%6], %9, %8;\n"
        "cp.async.ca.shared.global [%3], [%7], %9, %8;\n" ::"r"(to),
        "r"(to_1), "r"(to_2), "r"(to_3), "l"(from), "l"(from_1), "l"(from_2), "l"(from_3),
        "r"(bytes), "n"(kFloats * 4)
        : "memory");
  }
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

// Makes a group of this thread's copies since the last.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most kPending groups of this thread's are on the way.
template <int kPending>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Until this thread's copies have ended.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace haloconv
