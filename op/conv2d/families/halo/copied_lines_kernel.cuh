// fprop, and dgrad, of 3x3 filters without strides and one chunk of channels of a 16-bit type. All
// weights stay in registers, a tile is a piece of one row, and the copy engine writes its results.
// It has kernel.cuh's load warps. Its main loop differs, and how results leave; a block goes along
// rows, and a tile never reaches beyond its row.
#pragma once

#include "conv2d/families/halo/copied_block.cuh"
#include "conv2d/families/halo/copied_lines.cuh"
#include "conv2d/families/halo/run_taker.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"
#include "conv2d/families/halo/whole_tile.cuh"

namespace haloconv::halo {

// Registers of a thread, and single pixels or pairs that a load thread has on the way.
struct CopiedLinesRegisters {
  static constexpr int kMath = 192, kLoad = 256 - kMath;
  static constexpr int kSingles = 2, kPairs = 2;
};

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    copied_lines_kernel(const __grid_constant__ Arguments args,
                        const __grid_constant__ CopiedArguments copied) {
  using R = CopiedLinesRegisters;
  extern __shared__ __align__(128) unsigned char shared_base[];
  const SharedMemory shared{shared_base, args};
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread == 0) make_ring_barriers(args, shared);
  __syncthreads();

  if (thread >= kMathGroups * 128) {
    bring_line_windows<T, R, WholeTile, RunTaker>(args, shared);
  } else {
    take_registers<R::kMath>();
    const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
    Taps3x3Mainloop<T> mainloop(args, shared, group, thread % 128);
    TileQueue queue(shared);
    uint32_t next = queue.next();
    RowTerms<T, false> terms(args, next, group, thread % 128, 0);
    const auto results = [&] { return CopiedLines<T>(args, copied, shared); };
    bool is_continued = false;  // the tile continues the one before it
    while (next < args.tiles) {
      const uint32_t index = next;
      terms.combine(args);
      LineSums<T> sums;
      mainloop.run(sums);
      next = queue.next();
      const bool continues =
          next == index + 1 && next < args.tiles && WholeTile(args, next).follows(args);
      results().run(sums, terms, WholeTile(args, index), {is_continued, continues});
      is_continued = continues;
      terms = RowTerms<T, false>(args, next, group, thread % 128, 0);
    }
    results().wait_until_read();
  }
}

}  // namespace haloconv::halo
