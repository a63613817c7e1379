// fprop, and dgrad, of 3x3 filters without strides and padding on 16 channels, whose rows follow
// each other in memory. All weights stay in registers, a tile runs on from row to row, and the copy
// engine writes its results. It has kernel.cuh's load warps; its main loop is that of copied lines.
#pragma once

#include "conv2d/families/halo/copied_block.cuh"
#include "conv2d/families/halo/flat_lines.cuh"
#include "conv2d/families/halo/taps_3x3_mainloop.cuh"

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
  if (thread == 0) make_ring_barriers(args, shared);
  __syncthreads();

  if (thread >= kMathGroups * 128) {
    bring_line_windows<T, R, FlatTile<T>, TileTaker>(args, shared);
  } else {
    take_registers<R::kMath>();
    const int32_t group = __shfl_sync(~0u, thread / 128, 0);  // the compiler sees it is uniform
    Taps3x3Mainloop<T> mainloop(args, shared, group, thread % 128, flat.rows);
    TileQueue queue(shared);
    uint32_t next = queue.next();
    const FlatBias<T> bias(args, flat.rows, group, thread % 128);
    const auto results = [&] { return FlatLines<T>(args, flat, shared); };
    while (next < args.tiles) {
      const uint32_t index = next;
      LineSums<T> sums;
      mainloop.run(sums);
      next = queue.next();
      results().run(sums, bias, FlatTile<T>(args, index));
    }
    results().wait_until_read();
  }
}

}  // namespace haloconv::halo
