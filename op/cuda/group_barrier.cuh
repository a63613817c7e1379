// A barrier of one of several like groups of a block's threads, whose number is known at run time.
#pragma once

#include <cstdint>

namespace haloconv {

// Number 0 is __syncthreads()'s.
template <int kThreads>
__device__ __forceinline__ void group_barrier_sync(int32_t barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// The same, and whether the condition holds for any thread of the group.
template <int kThreads>
__device__ __forceinline__ bool group_barrier_any(int32_t barrier, bool condition) {
  int32_t any;
  asm volatile(
      "{\n"
      ".reg .pred mine, all;\n"
      "setp.ne.s32 mine, %2, 0;\n"
      "bar.red.or.pred all, %1, %3, mine;\n"
      "selp.s32 %0, 1, 0, all;\n"
      "}\n"
      : "=r"(any)
      : "r"(barrier), "r"(static_cast<int32_t>(condition)), "n"(kThreads)
      : "memory");
  return any != 0;
}

}  // namespace haloconv
