// How a block by columns begins. Where a launch follows another, the multiprocessor that is free
// last begins last, and all that its block does before its first copy is lost to the launch.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "conv2d/families/channels_last/tensor_maps.h"
#include "cuda/named_barrier.cuh"
#include "cuda/tma.cuh"

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

// Called by one thread.
__device__ __forceinline__ void prefetch_operand_maps(const Arguments& args,
                                                      const TensorMaps& maps) {
  prefetch_map(&maps.filter);
  for (int32_t i = 0; i < args.phases; ++i) prefetch_map(&maps.source[i]);
}

// Makes the barriers of a ring whose stages are read by kReaders warps each. The warp that brings
// operands does so and goes on at once; the block's others, kThreads with it, wait until it has.
template <int kThreads, int kReaders, class Shared>
__device__ __forceinline__ void begin_with_barriers(const Shared& shared, bool brings,
                                                    int32_t lane) {
  enum { kWholeBlock = 0 };
  if (brings && lane == 0) {
#pragma unroll
    for (int i = 0; i < kMaxStages; ++i) {
      cuda::ptx::mbarrier_init(&shared.full[i], 1);
      cuda::ptx::mbarrier_init(&shared.empty[i], kReaders);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  if (brings) {
    __syncwarp();
    named_barrier_arrive<kWholeBlock, kThreads>();
  } else {
    named_barrier_sync<kWholeBlock, kThreads>();
  }
}

}  // namespace haloconv::sm90::channels_last
