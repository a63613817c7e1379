// What plans are expected to take: the cost model, fitted to an H200. benchmarks/NOTES.md, "The
// Hopper planner".
#pragma once

#include <cstdint>

#include "chip/chip.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/halo/tiling.h"

namespace haloconv::halo {

inline constexpr double kLaunchMs = 0.004;  // of each kernel

// What the model takes from a chip, worked out once for all plans.
struct Rates {
  explicit Rates(const Chip& chip);

  double clock_hz, bytes_per_ms, l2_bytes_per_cycle;
  double pack_bytes_per_ms, folded_pack_bytes_per_ms;
  int multiprocessors;

  // How many blocks, or clusters of so many splits, run at a time.
  double at_once(int splits) const;
};

// What the model counts of one launch.
struct Work {
  // Whatever the tile.
  int32_t taps;
  int32_t destination_w;  // elements from one of its outputs to the next
  int32_t sector;         // elements of 32 bytes of the destination
  bool cut;               // rows of the destination begin within a sector
  double row_bytes;       // of its outputs, if each row's were neighbours
  double outputs;         // accumulators' columns: pixels of all images and groups
  double read;            // bytes of source and filter
  // Of a tile.
  int32_t tiles, window_cells;
  int32_t tile_columns;
  bool one_line;    // a warpgroup's tile is a piece of one row of neighbouring pixels
  double bytes_ms;  // memory_ms()
  // Of its splits.
  int32_t split_chunks;
  double at_once;  // Rates::at_once()
};

// What no tile changes of the launch; `read`: bytes that it takes from source and filter.
Work make_work(const FoldedProblem& problem, const AxisPart& row, const AxisPart& column,
               double read);

// For a launch's bytes, which all splits of a tile share.
double memory_ms(const Plan& plan, const Work& work, const Rates& rates);

// One launch.
double estimate_ms(const Plan& plan, const Work& work, const Rates& rates);
// No more than one launch takes with any arrangement of the tile's instructions, whatever the work
// says of tiles: in all, and each time that the blocks which run at once take a tile.
struct Least {
  double ms, wave_ms;
};
Least least_of(const Plan& plan, const Work& work, int64_t folded_rows, const Rates& rates);

// What is launched beside them: the packing of the filters, and where it is needed that of zeros.
double estimate_pack_ms(int fold, int64_t workspace_bytes, const Rates& rates);
double estimate_zeros_ms(const Conv2dProblem& problem, Direction direction, const Chip& chip);

// Bytes of the problem's tensors that are read.
double read_bytes(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv::halo
