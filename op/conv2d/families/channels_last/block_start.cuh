// How a block by columns begins. Where a launch follows another, the multiprocessor that is free
// last begins last, and all that its block does before its first copy is lost to the launch.
#pragma once

#include <cstdint>

#include "cuda/named_barrier.cuh"

namespace haloconv::sm90::channels_last {

// Each warp asks for another line of what the block is told, of which the constant cache has none
// yet, so that nobody waits for several, one after the other.
template <class Told>
__device__ __forceinline__ void ask_for_arguments(const Told& args, int32_t warp) {
  constexpr int kWords = 16;                                     // of a line of 64 bytes
  static_assert(sizeof(Told) >= 16 * kWords * sizeof(int32_t));  // a block has fewer warps
  const int32_t word = reinterpret_cast<const int32_t*>(&args)[warp * kWords];
  asm volatile("" ::"r"(word));
}

// The warp that has made the barriers goes on at once; the others, of kThreads with it, wait until
// it has.
template <int kThreads>
__device__ __forceinline__ void begin_with_barriers(bool has_made_them) {
  enum { kWholeBlock = 0 };
  if (has_made_them) {
    __syncwarp();
    named_barrier_arrive<kWholeBlock, kThreads>();
  } else {
    named_barrier_sync<kWholeBlock, kThreads>();
  }
}

}  // namespace haloconv::sm90::channels_last
