// Barriers of some of a block's warps, by number: those who meet at one may come from different
// places in the code. Number 0 is __syncthreads()'s; a kernel that has several names them by an
// enum of its own.
#pragma once

namespace haloconv {

// Waits until kThreads threads, those that only arrive included, have come.
template <auto kBarrier, int kThreads>
__device__ __forceinline__ void named_barrier_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<int>(kBarrier)), "n"(kThreads) : "memory");
}

// Comes and goes on.
template <auto kBarrier, int kThreads>
__device__ __forceinline__ void named_barrier_arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(static_cast<int>(kBarrier)), "n"(kThreads) : "memory");
}

// As __syncthreads() for a block of so many threads, wherever its warps are in the code.
template <int kThreads>
__device__ __forceinline__ void sync_threads() {
  named_barrier_sync<1, kThreads>();
}

}  // namespace haloconv
