#pragma once

#include <cstdint>

namespace haloconv {

// The calling thread in its block, a number that the compiler cannot keep in a register from one
// use to the next.
__device__ __forceinline__ uint32_t this_thread() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

}  // namespace haloconv
