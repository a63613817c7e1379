// What the planners of the kernels for filters of one tap expect of a block, and of all. The
// constants were fitted to 452 times on an H200: benchmarks/NOTES.md, "filters of one tap";
// chip/scale.h scales the rates to other chips.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "chip/scale.h"
#include "conv2d/families/pointwise/tile.h"

namespace haloconv::pointwise {

inline constexpr double kLaunchMs = 0.004;

// Of weight gradients.
inline constexpr int kMaxWaves = 4;
inline constexpr int64_t kMaxWorkspace = int64_t{48} << 20;
// The tensor core's sums truncate: of more pixels, 16 times as many, they would err by more than
// rounding them to 16 bits does.
inline constexpr int64_t kMostChunks = 512;
inline constexpr double kPartialBytesPerMs = 3.4e9;  // partial sums, there and back

// Of a multiprocessor, to bring so many values, or write them, by units.
inline double copy_cycles(double values, int32_t unit) {
  constexpr double kCopyCycles = 10;    // of a warp's copies by one instruction
  constexpr double kValueCycles = 5.8;  // the same where values are copied one by one
  return values / unit / 32 * (unit == 1 ? kValueCycles : kCopyCycles);
}

// One of the tiles that blocks compute.
struct Work {
  Tile tile;
  double chunks;
  double copies, results;  // cycles to bring a chunk, and to write the results
  bool rounds = false;     // float32
};

inline double estimate_ms(const Work& work, double tiles, double bytes, const Chip& chip) {
  constexpr double kClockHz = 1.7e9;
  constexpr double kBlockCycles = 2800;    // until the first chunk is there
  constexpr double kChunkCycles = 520;     // of a chunk that nothing hides
  constexpr double kL2BytesPerCycle = 42;  // to a multiprocessor
  constexpr double kMacsPerCycle = 2048;
  constexpr double kBytesPerMs = 3.8e9;
  const Tile& tile = work.tile;
  const double math = static_cast<double>(tile.rows) * tile.columns * kDepth / kMacsPerCycle;
  const double chunk =
      std::max({math, work.copies, chunk_bytes(tile) / (kL2BytesPerCycle * l2_scale(chip))});
  // A block alone waits; several share what a multiprocessor does at a time.
  const int ahead = stages_of(tile, work.rounds) - (work.rounds ? 3 : 2);
  const double waits = kChunkCycles / ahead;
  const double alone = work.chunks * std::max(chunk, waits) + work.results;
  const double together = work.chunks * chunk + work.results;
  const int at_once = blocks_of(tile, work.rounds);
  const double waves = std::ceil(tiles / (at_once * static_cast<double>(chip.multiprocessors)));
  const double cycles = std::max(kBlockCycles + waves * alone, waves * at_once * together);
  return std::max(cycles / (kClockHz * clock_scale(chip)) * 1e3,
                  bytes / (kBytesPerMs * memory_scale(chip))) +
         kLaunchMs;
}

}  // namespace haloconv::pointwise
