// Registers that a warpgroup hands to another of its block, and a barrier that warpgroups of
// different code reach.
#pragma once

namespace haloconv {

// The warpgroup's threads keep so many.
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// They have so many once others have released them.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// As __syncthreads() for a block of so many threads, wherever its warps are in the code.
template <int kThreads>
__device__ __forceinline__ void sync_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

}  // namespace haloconv
