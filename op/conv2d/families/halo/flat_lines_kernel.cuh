// fprop, and dgrad, of 3x3 filters without strides and padding on 16 channels, whose rows follow
// each other in memory. All weights stay in registers, a tile runs on from row to row, and the copy
// engine writes its results. It has kernel.cuh's load warps; its main loop is that of copied lines.
#pragma once

#include "conv2d/families/halo/flat_lines.cuh"
#include "conv2d/families/halo/producer.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"
#include "cuda/registers.cuh"

namespace haloconv::halo {

// Registers of a thread, and single pixels or pairs that a load thread has on the way.
template <class T>
struct FlatLinesRegisters {
  static constexpr int kMath = sizeof(T) == 4 ? 208 : 192, kLoad = 256 - kMath;
  static constexpr int kSingles = sizeof(T) == 4 ? 3 : 2, kPairs = 2;
};

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    flat_lines_kernel(const __grid_constant__ Arguments args,
                      const __grid_constant__ FlatArguments flat) {
  using R = FlatLinesRegisters<T>;
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);

  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathWarps);
    }
    for (int i = 0; i < kQueuedTiles; ++i) cuda::ptx::mbarrier_init(shared.tile_taken(i), 1);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();

  if (thread >= kMathGroups * 128) {
    release_registers<R::kLoad>();
    const int32_t load_thread = thread - kMathGroups * 128;
    if (args.source_vector == 1) {
      Producer<T, 1, R::kSingles, false, false, FlatTile<T>>(args, shared, load_thread, 0).run();
    } else {
      Producer<T, 2, R::kPairs, false, false, FlatTile<T>>(args, shared, load_thread, 0).run();
    }
  } else {
    take_registers<R::kMath>();
    const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
    Taps3x3Mainloop<T> mainloop(args, shared, group, thread % 128);
    TileQueue queue(shared);
    uint32_t next = queue.next();
    // The thread's number is asked for anew: keeping it live would spill.
    const auto load_terms = [&] {
      return RowTerms<T, false>(args, next, group, static_cast<int32_t>(this_thread() % 128), 0);
    };
    RowTerms<T, false> terms = load_terms();
    const auto results = [&] { return FlatLines<T>(args, flat, shared); };
    while (next < args.tiles) {
      const uint32_t index = next;
      terms.combine(args);
      LineSums<T> sums;
      mainloop.run(sums);
      next = queue.next();
      results().run(sums, terms, FlatTile<T>(args, index));
      terms = load_terms();
    }
    results().wait_until_read();
  }
}

}  // namespace haloconv::halo
