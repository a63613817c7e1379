// What plans are expected to take: the cost model, fitted to an H200. benchmarks/NOTES.md, "The
// Hopper planner".
#pragma once

#include <algorithm>
#include <cstdint>

#include "chip/chip.h"
#include "chip/waves.h"
#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/halo/tiling.h"

namespace haloconv::halo {

// Fitted to an H200 as the other constants, which are in estimate.cpp.
inline constexpr double kLaunchMs = 0.004;   // of each kernel
inline constexpr double kTileCycles = 2000;  // of a tile beside its steps: drain, results

// What the model takes from a chip, worked out once for all plans.
struct Rates {
  explicit Rates(const Chip& chip);

  double clock_hz, bytes_per_ms, l2_bytes_per_cycle;
  double pack_bytes_per_ms, folded_pack_bytes_per_ms;
  int multiprocessors;

  // How many blocks, or clusters of so many splits, run at a time.
  double at_once(int splits) const;
};

// What the model counts of one launch, whatever the tile.
struct Work {
  int32_t taps;
  int32_t destination_w;  // elements from one of its outputs to the next
  int32_t sector;         // elements of 32 bytes of the destination
  bool cut;               // rows of the destination begin within a sector
  double row_bytes;       // of its outputs, if each row's were neighbours
  double outputs;         // accumulators' columns: pixels of all images and groups
  double read;            // bytes of source and filter
  double whole_bytes_ms;  // for its bytes, where no sector is cut
};

// `read`: bytes that it takes from source and filter.
Work make_work(const FoldedProblem& problem, const AxisPart& row, const AxisPart& column,
               double read, const Rates& rates);

// The same of a tile.
struct TileWork {
  double tiles;
  int32_t window_cells;
  bool one_line;    // a warpgroup's tile is a piece of one row of neighbouring pixels
  double bytes_ms;  // for the launch's bytes, which all splits of the tile share
};

// More sectors that are written where tiles are pieces of several rows.
double cut_sectors(const Plan& plan);

// Milliseconds of a launch's bytes where sectors are cut, by tiles of so many columns; `more`:
// cut_sectors(), or 0 where a warpgroup's part of the tile is one line. Blocks share the sectors of
// 32 bytes at the ends of an unaligned output's pieces of rows; the phases of a stride share them
// all. Blocks that copy lines go along rows and share hardly any, as if none were cut.
inline double cut_bytes_ms(const Work& work, double more, int32_t tile_columns,
                           const Rates& rates) {
  const double written =
      work.row_bytes * (std::min(work.destination_w, work.sector) +
                        (more + static_cast<double>(work.sector) / tile_columns));
  return (work.read + written) / rates.bytes_per_ms;
}

// What the tiles of one instance of the kernel have in common in a launch, with so many splits.
struct InstanceWork {
  double chunks, at_once;            // of a split; blocks, or clusters
  double math_cycles, weight_bytes;  // of a tile's steps
  double round_cycles, in_flight;    // of a chunk's load: of each round, of which so many overlap
  double pixel_cycles, line_cycles;  // of a tile beside its steps; where it is one line
  double cell_cycles, split_cycles;  // of a window's cell in all chunks; to add a cluster's sums
  double factor;                     // of all that is not the launch
};
// Of the plan's tile and splits.
InstanceWork make_instance_work(const Plan& plan, const Work& work, int32_t split_chunks,
                                const Rates& rates);

// Cycles of a tile whose window has so many cells; `beside_steps`: those of its pixels.
inline double cycles_of(const InstanceWork& of, int32_t window_cells, double beside_steps,
                        const Rates& rates) {
  const double rounds = (window_cells + kLoadThreads - 1) / kLoadThreads;
  const double load = of.chunks * rounds * of.round_cycles / of.in_flight;
  const double brought = of.weight_bytes + double{kChunkBytes} * of.chunks * window_cells;
  return std::max(std::max(of.math_cycles, load), brought / rates.l2_bytes_per_cycle) +
         kTileCycles + beside_steps + of.cell_cycles * window_cells + of.split_cycles;
}

// One launch. Here, for planners estimate hundreds of them for a problem.
inline double estimate_ms(const InstanceWork& of, const TileWork& tile, const Rates& rates) {
  const double cycles =
      cycles_of(of, tile.window_cells, tile.one_line ? of.line_cycles : of.pixel_cycles, rates);
  const double waves = waves_of(tile.tiles, of.at_once);
  return of.factor * std::max(waves * cycles / rates.clock_hz * 1e3, tile.bytes_ms) + kLaunchMs;
}
// No more than one launch takes with any arrangement of the tile's instructions, whose rows of
// accumulators are shared out to so many blocks.
double least_ms(const Plan& plan, const InstanceWork& instance, const Work& work, int32_t row_tiles,
                const Rates& rates);

// What is launched beside them: the packing of the filters, and where it is needed that of zeros.
double estimate_pack_ms(int fold, int64_t workspace_bytes, const Rates& rates);
double estimate_zeros_ms(const Conv2dProblem& problem, Direction direction, const Chip& chip);

// Bytes of the problem's tensors that are read.
double read_bytes(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv::halo
