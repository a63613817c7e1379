// What the planner expects of a launch. The constants were fitted to times on an H200, those of
// strips to times on an H100: benchmarks/NOTES.md, "Channels innermost on Hopper" and "strips".
#pragma once

#include <algorithm>
#include <cmath>

#include "chip/chip.h"
#include "conv2d/families/channels_last/strips.h"
#include "conv2d/families/channels_last/tile.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// The work of a launch, of equal tiles.
struct Work {
  Tile tile;
  double tiles = 0;
  double steps = 0;       // of a tile: 128 bytes deep, or a narrow window's tap
  double macs_deep = 64;  // of a step, as 16-bit types are multiplied
  double step_bytes = 0;  // that a block brings for a step
  double stages = 0;      // steps that the copies are ahead at most
  double short_rows = 0;  // of a step's filter tile: rows of fewer than 64 channels in memory
};

// Of a launch's tiles, if memory is no limit.
inline double launch_ms(const Work& work, const Chip& chip) {
  constexpr double kClock = 1.08;          // of the stated clock, under load
  constexpr double kMacsPerCycle = 2048;   // of the tensor cores
  constexpr double kNarrow = 1.33;         // for 64 channels, whose operands are read more often
  constexpr double kNarrowest = 1.9;       // for 32
  constexpr double kStepCycles = 55;       // of a step, for its barriers
  constexpr double kTileCycles = 1290;     // of a tile, besides its steps and results
  constexpr double kResultCycles = 0.096;  // to write a result
  constexpr double kLatencyCycles = 1750;  // from the issue of a copy to its arrival
  constexpr double kL2BytesPerCycle = 38;  // to each multiprocessor, when all are served
  constexpr double kBytesPerCycle = 46;    // to one, when few are
  constexpr double kShortRowCycles = 8;    // of one, which all blocks want at once
  constexpr double kOverlap = 0.77;        // of a tile's end that a second block does not hide
  const double at_once = blocks_of(work.tile), multiprocessors = chip.multiprocessors;
  const double blocks = std::min(work.tiles, at_once * multiprocessors);
  const double busy = std::min(blocks, multiprocessors);
  const double sharing = blocks / busy;  // blocks on a multiprocessor
  const double math = work.tile.pixels * work.tile.channels * work.macs_deep / kMacsPerCycle *
                          (work.tile.channels == 32   ? kNarrowest
                           : work.tile.channels < 128 ? kNarrow
                                                      : 1) +
                      kStepCycles;
  const double brought =
      work.step_bytes / std::min(kBytesPerCycle, kL2BytesPerCycle * multiprocessors / busy) +
      work.short_rows * kShortRowCycles;
  const double step =
      std::max(sharing * std::max(math, brought), kLatencyCycles / std::max(work.stages, 1.0));
  const double end = kTileCycles + kResultCycles * work.tile.pixels * work.tile.channels *
                                       work.tile.element_bytes / 2;
  const double rounds = std::ceil(work.tiles / blocks);
  const double cycles = rounds * (work.steps * step + end * sharing * (sharing > 1 ? kOverlap : 1));
  return cycles / (chip.clock_hz * kClock) * 1e3;
}

// Of strips, if memory is no limit.
inline double strips_launch_ms(const StripTile& strip, const StripArguments& args,
                               const Chip& chip) {
  constexpr double kClock = 1.08;          // of the stated clock, under load
  constexpr double kMacsPerCycle = 1770;   // of the tensor cores, whose clock falls under such load
  constexpr double kSharedBytes = 128;     // that these read in a cycle
  constexpr double kRowCycles = 160;       // of a source row, besides its products
  constexpr double kStartCycles = 1500;    // until the first rows have come
  constexpr double kLatencyCycles = 1750;  // from the issue of a copy to its arrival
  constexpr double kL2BytesPerCycle = 38;  // to each multiprocessor, when all are served
  const double steps = double(args.chunks) * args.taps_w * kMathGroups;
  const double columns = strip.rows * strip.tile.channels;
  const double deep = 64.0 * strip.tile.row_bytes() / kStageRowBytes;
  const double math = steps * std::max(64 * columns * deep / kMacsPerCycle,
                                       (64 + columns) * strip.tile.row_bytes() / kSharedBytes);
  const double bytes = double(args.chunks) * args.window_bytes;
  const double row = std::max(
      {math + kRowCycles, bytes / kL2BytesPerCycle, kLatencyCycles * args.chunks / args.stages});
  const double parts = std::ceil(double(args.block_rows) / args.strip_rows.divisor);
  const double rows = args.block_rows + parts * (args.taps_h - 1);
  const double start = kStartCycles + args.filter_bytes / kL2BytesPerCycle;
  return (start + rows * row) / (chip.clock_hz * kClock) * 1e3;
}

// What is hidden behind the longer of a launch's products and its bytes is not all of the shorter:
// of strips more than of tiles.
inline constexpr double kTilesHide = 4, kStripsHide = 6;

// Of a call, by its launches' tiles.
inline double call_ms(const Conv2dProblem& problem, const Chip& chip, double tiles_ms,
                      size_t launches, double hides) {
  constexpr double kLaunchMs = 0.002;
  constexpr double kMemoryRate = 0.95;  // of a copy's
  const double memory_ms = problem.bytes() / (chip.memory_rate * kMemoryRate) * 1e3;
  return kLaunchMs * static_cast<double>(launches) +
         std::pow(std::pow(tiles_ms, hides) + std::pow(memory_ms, hides), 1 / hides);
}

}  // namespace haloconv::sm90::channels_last
