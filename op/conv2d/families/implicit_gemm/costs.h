// What the planner expects of a launch: rates of instruction and memory, and what the kernels reach
// of them, fitted to times of the reference problems on an H100. On chips whose tensor cores are
// slower for their clock the kernels should reach more: no such chip was measured.
#pragma once

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/geometry/channels_innermost.h"
#include "conv2d/rates.h"

namespace haloconv::implicit_gemm {

// The work of a launch.
struct Work {
  Tile tile;
  Access access = Access::kUnits;
  int stages = 0;
  double tiles = 0;
  double steps = 0;       // of a tile, on average
  double step_depth = 0;  // products of each sum
};

// Of a launch's tiles, if memory is no limit.
inline double launch_ms(const Work& work, const Chip& chip, DataType type) {
  constexpr double kSustained = 0.43;     // of the instruction's rate, in a kernel
  constexpr double kElements = 0.62;      // of that, where threads load the source themselves
  constexpr double kStepCycles = 40;      // of a step, for its barrier
  constexpr double kTileCycles = 4000;    // of a tile, for its first copies and last results
  constexpr double kResultCycles = 0.3;   // to write a result
  constexpr double kLatencyCycles = 900;  // from the issue of a copy to its use
  constexpr double kCopiedBytes = 26;     // to a multiprocessor's shared memory, in a cycle
  constexpr double kOverlap = 0.5;        // of a tile's end that other blocks do not hide
  const double rate = matrix_rate(chip, type, /*tf32=*/true) * warp_instruction_share(chip) *
                      kSustained * (work.access == Access::kElements ? kElements : 1);
  const double multiprocessors = chip.multiprocessors;
  const int64_t room =
      chip.shared_bytes_per_multiprocessor / (shared_bytes(work.tile, work.stages) + 1024);
  const double at_once = std::min<double>(blocks_of(work.tile), std::max<double>(room, 1));
  const double blocks = std::min(work.tiles, at_once * multiprocessors);
  const double sharing = std::ceil(blocks / multiprocessors);
  // Few warps leave the tensor cores' latency open.
  const double warps = sharing * work.tile.threads() / 32;
  const double filled = std::min(1.0, 0.4 + 0.075 * warps);
  const double math =
      work.tile.pixels * work.tile.channels * work.step_depth / rate / filled + kStepCycles;
  const double brought = stage_bytes(work.tile) / kCopiedBytes;
  const double step =
      std::max(sharing * std::max(math, brought), kLatencyCycles / (work.stages - 1));
  const double end = kTileCycles + kResultCycles * work.tile.pixels * work.tile.channels;
  const double rounds = work.tiles / (sharing * multiprocessors);
  // A last round that is not full takes as long; blocks that are not alike fill it in part.
  const double cycles = (0.5 * (rounds + std::ceil(rounds))) *
                        (work.steps * step + end * sharing * (sharing > 1 ? kOverlap : 1));
  return cycles / chip.clock_hz * 1e3;
}

// Of a call, by its launches' tiles, and how many kernels are launched.
inline double call_ms(const Conv2dProblem& problem, const Chip& chip, double tiles_ms,
                      double packed_bytes, double kernels) {
  constexpr double kLaunchMs = 0.002;
  constexpr double kMemoryRate = 0.9;  // of a copy's
  // Only the reference problems were timed: on 9.0, where other kernels were timed on many more,
  // ours must be expected to win clearly.
  const double doubt = chip.compute_capability == h200().compute_capability ? 1.2 : 1;
  const double memory_ms = problem.bytes() / (chip.memory_rate * kMemoryRate) * 1e3;
  // What is hidden behind the longer of both is not all of the shorter.
  const double a = tiles_ms * tiles_ms, b = memory_ms * memory_ms;
  const double ms = std::sqrt(std::sqrt(a * a + b * b)) + kLaunchMs * kernels +
                    2 * packed_bytes / chip.memory_rate * 1e3;
  return std::max(doubt * ms, least_ms(problem, chip, /*tf32=*/true));
}

}  // namespace haloconv::implicit_gemm
