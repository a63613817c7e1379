// What the blocks of kernels whose results the copy engine writes have in common.
#pragma once

#include "conv2d/families/halo/producer.cuh"
#include "cuda/registers.cuh"

namespace haloconv::halo {

// One thread: the barriers of the ring of windows and of the queue of tiles.
__device__ __forceinline__ void make_ring_barriers(const Arguments& args,
                                                   const SharedMemory& shared) {
  for (int i = 0; i < args.stages; ++i) {
    cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads);
    cuda::ptx::mbarrier_init(shared.empty(i), kMathWarps);
  }
  for (int i = 0; i < kQueuedTiles; ++i) cuda::ptx::mbarrier_init(shared.tile_taken(i), 1);
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

// The load warps where a tile is a piece of one row. R: registers of a thread, and single pixels
// or pairs that a load thread has on the way.
template <class T, class R, class Position, class Taker>
__device__ __forceinline__ void bring_line_windows(const Arguments& args,
                                                   const SharedMemory& shared) {
  release_registers<R::kLoad>();
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - kMathGroups * 128;
  if (args.source_vector == 1) {
    Producer<T, 1, R::kSingles, false, false, Position, Taker>(args, shared, thread, 0).run();
  } else {
    Producer<T, 2, R::kPairs, false, false, Position, Taker>(args, shared, thread, 0).run();
  }
}

}  // namespace haloconv::halo
