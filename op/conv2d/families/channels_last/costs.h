// What the planner expects of a launch. The constants were fitted to times on an H200, those of
// strips to times on an H100: benchmarks/NOTES.md, "estimates of small layers" and "strips".
#pragma once

#include <algorithm>
#include <cmath>

#include "chip/chip.h"
#include "conv2d/families/channels_last/strips.h"
#include "conv2d/families/channels_last/tile.h"
#include "conv2d/geometry/met_bytes.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// The work of a launch, of equal tiles.
struct Work {
  Tile tile;
  double tiles = 0;
  double steps = 0;       // of a tile: 128 bytes deep, or a narrow window's tap
  double macs_deep = 64;  // of a step, as 16-bit types are multiplied
  double windows = 0;     // of a step: windows that begin with it
  double step_bytes = 0;  // that a block brings for a step
  double stages = 0;      // steps that the copies are ahead at most
  double short_rows = 0;  // of a step's filter tile: rows of fewer than 64 channels in memory
  double results = 1;     // of alternating tiles: that are written for each that is multiplied
  bool copies_results = false;  // of alternating tiles: from shared memory
};

// Of so many tiles with which warpgroups take turns, whose products and whose end take so long.
inline double alternating_cycles(double tiles, double sums, double ends) {
  return sums >= ends ? tiles * sums
                      : std::floor(tiles / 2) * (sums + ends) + std::fmod(tiles, 2) * sums;
}

// Of a launch's tiles, if memory is no limit.
inline double launch_ms(const Work& work, const Chip& chip) {
  constexpr double kClock = 1.08;            // of the stated clock, under load
  constexpr double kMacsPerCycle = 1770;     // of the tensor cores
  constexpr double kNarrow = 1.1;            // for 64 channels, whose operands are read more often
  constexpr double kNarrowest = 1.36;        // for 32
  constexpr double kStepCycles = 42;         // of a step, for its barriers
  constexpr double kWindowCycles = 80;       // of a window, which has barriers of its own
  constexpr double kTileCycles = 920;        // of a tile, besides its steps and results
  constexpr double kResultCycles = 0.068;    // to write a result
  constexpr double kCopiedTileCycles = 500;  // the same two where results are copied
  constexpr double kCopiedCycles = 0.045;
  constexpr double kLatencyCycles = 1250;    // from the issue of a copy to its arrival
  constexpr double kL2BytesPerCycle = 47.5;  // to each multiprocessor, when all are served
  constexpr double kBytesPerCycle = 63;      // to one, when few are
  constexpr double kShortRowCycles = 11;     // of one, which all blocks want at once
  constexpr double kOverlap = 0.69;          // of a tile's end that a second block does not hide
  const double at_once = blocks_of(work.tile), multiprocessors = chip.multiprocessors;
  const double math = work.tile.pixels * work.tile.channels * work.macs_deep / kMacsPerCycle *
                          (work.tile.channels == 32   ? kNarrowest
                           : work.tile.channels < 128 ? kNarrow
                                                      : 1) +
                      kStepCycles + kWindowCycles * work.windows;
  const double end = kTileCycles + kResultCycles * work.tile.pixels * work.tile.channels *
                                       work.tile.element_bytes / 2;
  // Of so many tiles at once: of each block one, where some multiprocessors may have one block more
  // than others.
  const auto round_cycles = [&](double tiles) {
    const double busy = std::min(tiles, multiprocessors), sharing = std::ceil(tiles / busy);
    const double brought =
        work.step_bytes / std::min(kBytesPerCycle, kL2BytesPerCycle * multiprocessors / busy) +
        work.short_rows * kShortRowCycles;
    const double step =
        std::max(sharing * std::max(math, brought), kLatencyCycles / std::max(work.stages, 1.0));
    return work.steps * step + end * sharing * (sharing > 1 ? kOverlap : 1);
  };
  if (work.tile.alternates) {
    // While one of two tiles is written the next is multiplied.
    const double copied = kCopiedTileCycles + kCopiedCycles * work.tile.pixels * work.tile.channels;
    const double busy = std::min(work.tiles, multiprocessors);
    const double last = work.copies_results ? copied : end;
    const double ends = last * work.results;  // with zeros, of which none are left at the last
    const double brought =
        work.step_bytes / std::min(kBytesPerCycle, kL2BytesPerCycle * multiprocessors / busy) +
        work.short_rows * kShortRowCycles;
    const double sums =
        work.steps * std::max({math, brought, kLatencyCycles / std::max(work.stages, 1.0)});
    const double before = std::ceil(work.tiles / busy) - 1;
    const double until_last = alternating_cycles(before, sums, ends);
    return (until_last + sums + last) / (chip.clock_hz * kClock) * 1e3;
  }
  const double blocks = at_once * multiprocessors, rounds = std::floor(work.tiles / blocks);
  const double left = work.tiles - rounds * blocks;
  const double cycles =
      (rounds > 0 ? rounds * round_cycles(blocks) : 0) + (left > 0 ? round_cycles(left) : 0);
  return cycles / (chip.clock_hz * kClock) * 1e3;
}

// The same of products that are turned around; `cuts_lines` where tiles of other channels write the
// other part of lines of memory. Fitted to 387 plans of 47 layers on an H200, with an
// error of 0.08.
inline double turned_launch_ms(const Work& work, bool cuts_lines, const Chip& chip) {
  constexpr double kClock = 1.08;             // of the stated clock, under load
  constexpr double kMacsPerCycle = 1770;      // of the tensor cores, as 16-bit types are multiplied
  constexpr double kNarrow = 1.1;             // for 64 channels
  constexpr double kStepCycles = 146;         // of a step, besides its products
  constexpr double kLatencyCycles = 1000;     // from the issue of a copy to its arrival
  constexpr double kL2BytesPerCycle = 53;     // to each multiprocessor, when all are served
  constexpr double kBytesPerCycle = 63;       // to one, when few are
  constexpr double kResultCycles = 0.052;     // to write a result, by all warpgroups
  constexpr double kOwnResultCycles = 0.122;  // the same by one that takes turns
  constexpr double kCut = 2.8, kOwnCut = 1.7;  // times as long where lines are cut
  const Tile& tile = work.tile;
  const double multiprocessors = chip.multiprocessors;
  const double busy = std::min(work.tiles, multiprocessors);
  const double math = tile.pixels * tile.channels * work.macs_deep / kMacsPerCycle *
                          (tile.channels < 128 ? kNarrow : 1) +
                      kStepCycles;
  const double brought =
      work.step_bytes / std::min(kBytesPerCycle, kL2BytesPerCycle * multiprocessors / busy);
  const double sums =
      work.steps * std::max({math, brought, kLatencyCycles / std::max(work.stages, 1.0)});
  const double result = tile.alternates ? kOwnResultCycles * (cuts_lines ? kOwnCut : 1)
                                        : kResultCycles * (cuts_lines ? kCut : 1);
  const double end = result * tile.pixels * tile.channels;
  const double rounds = std::ceil(work.tiles / busy);
  const double cycles = tile.alternates
                            ? alternating_cycles(rounds - 1, sums, end * work.results) + sums + end
                            : rounds * (sums + end);
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

// Of a call's time, what one takes whose source is prefetched while the kernel before runs.
inline constexpr double kPrefetchedTime = 0.97;
// Of the time by the model, where a filter of 256 channels stays in shared memory, in 16 bits. Of
// 20 1x1 layers it was 0.89 in the mean, 0.75 to 1.16 (an H200). With this the best plan of all but
// one of 33 layers is among those that may be timed, and the first plan is best.
inline constexpr double kWideResidentTime = 0.95;
// Of the time by the model, where two warpgroups take turns with the tiles of windows. Such plans
// took 0.89 and 1.08 of it in two layers where they were the fastest, and at least 1.04 to 1.17 in
// three others where they were expected to be (an H200). With this all of them may be timed.
inline constexpr double kWindowTurnsTime = 1.04;

// What is hidden behind the longer of a launch's products and its bytes is not all of the shorter:
// of strips more than of tiles, of products that are turned around less.
inline constexpr double kTilesHide = 3.7, kStripsHide = 6, kTurnedHide = 2.5;

// Of the partial sums of splits, there and back, and of the kernel that adds them.
inline double splits_ms(double partial_bytes, const Chip& chip) {
  constexpr double kLaunchMs = 0.002;
  constexpr double kRate = 1.1;  // of a copy's: of one's reads and writes, which the L2 cache holds
  return kLaunchMs + 2 * partial_bytes / (chip.memory_rate * kRate) * 1e3;
}

// Of a call, by its launches' tiles. What does not depend on them is worked out once.
class CallModel {
 public:
  CallModel(const Conv2dProblem& problem, Direction direction, const Chip& chip)
      : memory_ms_(met_bytes(problem, direction) / (chip.memory_rate * kMemoryRate) * 1e3) {}

  double ms(double tiles_ms, size_t launches, double hides) const {
    constexpr double kLaunchMs = 0.0028;
    return kLaunchMs * static_cast<double>(launches) +
           std::pow(std::pow(tiles_ms, hides) + std::pow(memory_ms_, hides), 1 / hides);
  }

 private:
  static constexpr double kMemoryRate = 0.93;  // of a copy's
  double memory_ms_;
};

}  // namespace haloconv::sm90::channels_last
