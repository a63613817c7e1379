// A barrier of one of several like groups of a block's threads, whose number is known at run time.
#pragma once

#include <cstdint>

namespace haloconv {

// Number 0 is __syncthreads()'s.
template <int kThreads>
__device__ __forceinline__ void group_barrier_sync(int32_t barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace haloconv
