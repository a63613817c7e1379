// fprop and dgrad on Hopper, in TF32, in float32 or of a 16-bit type.
//
// A block stays on its multiprocessor and computes one tile after the other. Two of its warpgroups
// load windows of the source, each a tile with its halo, into a ring in shared memory; two compute.
// Every tap of the filter reads the same window through a shifted descriptor: no pixel is copied
// for a tap, and nothing is transposed in global memory.
#pragma once

#include <type_traits>

#include "conv2d/families/halo/epilogue.cuh"
#include "conv2d/families/halo/epilogue_of_16_bits.cuh"
#include "conv2d/families/halo/mainloop.cuh"
#include "conv2d/families/halo/precise_mainloop.cuh"
#include "conv2d/families/halo/producer.cuh"
#include "cuda/registers.cuh"

namespace haloconv::halo {

// How many registers each thread has, of 65536 in all. What the load warps release lets the math
// warps keep accumulators and weights in registers; with smaller accumulators the load warps keep
// more, and have more loads on the way.
template <class T, int kInstructions, int kWidth>
struct Registers {
  static constexpr bool kResident = resident_steps(kWidth) > 0;
  static constexpr bool kPrecise = Element<T>::kTerms == 2;  // two sets of sums
  static constexpr int kMath = kResident ? 208 : kPrecise ? 200 : kInstructions == 4 ? 192 : 152;
  static constexpr int kLoad = 256 - kMath;
  // Single pixels, or pairs of neighbours, on the way. Each takes a register for each channel, a
  // pair of float32 two; a chunk has twice as many channels of 16 bits.
  static constexpr int kPixels =
      kPrecise ? kPrecisePixels : pixels_in_flight(kInstructions, kWidth);
  static constexpr int kSingles = sizeof(T) == 4 ? kPixels : kPixels / 2;
  static constexpr int kPairs = sizeof(T) == 4 || !kResident ? (kPixels + 1) / 2 : kPixels / 2;
  static constexpr bool kApart = pairs_may_be_apart(kWidth);
};

template <class T, int kInstructions, int kWidth, bool kSplit, bool kFused, bool kFolds>
__global__ void __launch_bounds__(kThreads, 1) halo_kernel(const __grid_constant__ Arguments args) {
  using R = Registers<T, kInstructions, kWidth>;
  constexpr int kPixels = kInstructions * kWidth;                  // of a math warpgroup's tile
  constexpr bool kRounded = sizeof(T) == 2 && !kSplit && !kFolds;  // when staged
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t split = kSplit ? static_cast<int32_t>(blockIdx.x % args.splits) : 0;

  if (thread == 0) {
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(shared.full(i), kLoadThreads);
      cuda::ptx::mbarrier_init(shared.empty(i), kMathWarps);
    }
    for (int i = 0; i < kMathWarps; ++i) {
      cuda::ptx::mbarrier_init(shared.staged(i), args.splits);
      cuda::ptx::mbarrier_init(shared.drained(i), args.splits);
      cuda::ptx::mbarrier_init(shared.met(i), 32);
    }
    for (int i = 0; i < kQueuedTiles; ++i) cuda::ptx::mbarrier_init(shared.tile_taken(i), 1);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  for (int32_t i = thread; i < args.taps + kTapsAgain; i += kThreads) {
    const int32_t tap = i % args.taps;
    int32_t residue_h, residue_w;
    const int32_t row = args.h.tap_cell(tap / args.w.taps, residue_h);
    const int32_t column = args.w.tap_cell(tap % args.w.taps, residue_w);
    shared.tap_cells()[i] =
        (residue_h * args.h.cells + row) * args.pitch + residue_w * args.w.cells + column;
  }
  if constexpr (kSplit) {
    cuda::ptx::barrier_cluster_arrive();
    cuda::ptx::barrier_cluster_wait();
  }
  __syncthreads();

  if (thread >= kMathGroups * 128) {
    release_registers<R::kLoad>();
    const int32_t load_thread = thread - kMathGroups * 128;
    if (args.source_vector == 1) {
      Producer<T, 1, R::kSingles, false, R::kApart>(args, shared, load_thread, split).run();
    } else if (args.streams) {
      Producer<T, 2, R::kPairs, true, R::kApart>(args, shared, load_thread, split).run();
    } else {
      Producer<T, 2, R::kPairs, false, R::kApart>(args, shared, load_thread, split).run();
    }
  } else {
    take_registers<R::kMath>();
    const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
    using Loop = std::conditional_t<R::kPrecise, PreciseMainloop<T, kInstructions, kWidth>,
                                    Mainloop<T, kInstructions, kWidth, kFused>>;
    Loop mainloop(args, shared, group, thread % 128, split);
    TileQueue queue(shared);
    uint32_t round = 0;
    uint32_t next = queue.next();
    mainloop.begin_weights(next);
    RowTerms<T, kFused> terms(args, next, group, thread % 128, split);
    while (next < args.tiles) {
      const TilePosition tile(args, next);
      terms.combine(args);
      if constexpr (kFused) Residual<kPixels>(args, shared).begin(0, tile);
      float sums[kInstructions][kWidth / 2];
      mainloop.run(sums);
      const auto prepare_next = [&] {
        next = queue.next();
        mainloop.begin_weights(next);
        terms = RowTerms<T, kFused>(args, next, group, thread % 128, split);
      };
      if constexpr (kRounded) {
        EpilogueOf16Bits<T, kInstructions, kWidth>(args, shared)
            .run(sums, terms, tile, prepare_next);
      } else {
        Epilogue<T, kInstructions, kWidth, kSplit, kFused, kFolds>(args, shared, split, round)
            .run(sums, terms, tile, next, prepare_next);
      }
    }
  }
  if constexpr (kSplit) {  // others may still read this block's sums
    cuda::ptx::barrier_cluster_arrive();
    cuda::ptx::barrier_cluster_wait();
  }
}

}  // namespace haloconv::halo
