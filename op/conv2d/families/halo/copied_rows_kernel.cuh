// fprop, and dgrad without strides, whose tiles are pieces of several rows and whose results the
// copy engine writes. It differs from kernel.cuh in how results leave.
#pragma once

#include "conv2d/families/halo/copied_block.cuh"
#include "conv2d/families/halo/copied_rows.cuh"
#include "conv2d/families/halo/mainloop.cuh"

namespace haloconv::halo {

// Of a thread, and what a load thread has on the way: as kernel.cuh's of as many instructions.
template <class T>
struct CopiedRowsRegisters {
  static constexpr int kMath = 192, kLoad = 256 - kMath;
  static constexpr int kPixels = pixels_in_flight(kRowsInstructions, 64);
  static constexpr int kSingles = sizeof(T) == 4 ? kPixels : kPixels / 2;
  static constexpr int kPairs = (kPixels + 1) / 2;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, 1)
    copied_rows_kernel(const __grid_constant__ Arguments args,
                       const __grid_constant__ CUtensorMap map) {
  using R = CopiedRowsRegisters<T>;
  extern __shared__ __align__(1024) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);

  if (thread == 0) make_ring_barriers(args, shared);
  for (int32_t i = thread; i < args.taps + kTapsAgain; i += kThreads) {
    const int32_t tap = i % args.taps;
    int32_t residue_h, residue_w;
    const int32_t row = args.h.tap_cell(tap / args.w.taps, residue_h);
    const int32_t column = args.w.tap_cell(tap % args.w.taps, residue_w);
    shared.tap_cells()[i] =
        (residue_h * args.h.cells + row) * args.pitch + residue_w * args.w.cells + column;
  }
  __syncthreads();

  if (thread >= kMathGroups * 128) {
    release_registers<R::kLoad>();
    const int32_t load_thread = thread - kMathGroups * 128;
    if (args.source_vector == 1) {
      Producer<T, 1, R::kSingles, false, true>(args, shared, load_thread, 0).run();
    } else if (args.streams) {
      Producer<T, 2, R::kPairs, true, true>(args, shared, load_thread, 0).run();
    } else {
      Producer<T, 2, R::kPairs, false, true>(args, shared, load_thread, 0).run();
    }
  } else {
    take_registers<R::kMath>();
    const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
    Mainloop<T, kRowsInstructions, kWidth, false> mainloop(args, shared, group, thread % 128, 0);
    TileQueue queue(shared);
    uint32_t next = queue.next();
    mainloop.begin_weights(next);
    RowTerms<T, false> terms(args, next, group, thread % 128, 0);
    const auto results = [&] { return CopiedRows<T, kWidth>(args, map, shared); };
    while (next < args.tiles) {
      const TilePosition tile(args, next);
      terms.combine(args);
      float sums[kRowsInstructions][kWidth / 2];
      mainloop.run(sums);
      results().run(sums, terms, tile, [&] {
        next = queue.next();
        mainloop.begin_weights(next);
        terms = RowTerms<T, false>(args, next, group, thread % 128, 0);
      });
    }
    results().wait_until_read();
  }
}

}  // namespace haloconv::halo
