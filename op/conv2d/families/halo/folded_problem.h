// A problem as its kernels see it when a fold has been chosen but no tile yet: the axes of all
// launches. Phases and folds of the destination are worked out here, once for all tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/fold.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::halo {

// Which neighbours of the destination are computed as if they were further channels.
struct FoldChoice {
  int count = 1;         // 1: none
  bool columns = false;  // neighbours along w, not h
};

// One axis of the windows, whatever the tile.
struct WindowShape {
  WindowAxis axis;  // its tile, tiles, cells and last are still to be set
  int32_t halo;     // cells of a residue beyond one for each output of the tile
  bool even;        // it begins at an even pixel, and has an even number of them

  int32_t cells(int32_t tile) const {
    const int32_t all = tile + halo;
    return even && axis.source_step == 1 ? (all + 1) & ~1 : all;
  }
  WindowAxis with_tile(int32_t tile) const;
};

// One axis of a launch: of a phase that has taps, or of one of the parts that a fold makes of it.
struct AxisPart {
  AxisPhase phase;   // not folded
  int32_t step;      // elements of the destination from one output to the next
  int32_t of_phase;  // its number; parts of one phase share a packed filter
  WindowShape window;
  WindowShape even_window;  // the same where the load warps read pairs of pixels
  bool reads_pairs;         // of a column: whether they may
  int32_t shape;            // parts of one shape have as many outputs and cells in any tile
};

// One of the rows with one of the columns; `begins_phase`: it has a packed filter of its own, which
// those after it share until the next phase begins.
struct LaunchPair {
  int32_t row, column;
  bool begins_phase;
};

struct FoldedProblem {
  Gather gather;
  int32_t element_bytes;
  bool precise;
  int64_t images;
  Fold fold;
  bool fold_columns;
  std::vector<AxisPart> rows, columns;
  std::vector<LaunchPair> launches;   // in order
  int32_t row_shapes, column_shapes;  // how many there are
  int64_t folded_rows;                // rows of the accumulators that a group takes
  int32_t chunk, chunks;
  bool pairs_are_apart;  // in cells that are no neighbours
  // Whether some window's pixels might be 2^31 elements from its first, or more.
  bool is_far;

  // Along w, by the tile's width.
  const WindowShape& window_of(const AxisPart& column, int width) const {
    const bool reads_pairs = column.reads_pairs && (!pairs_are_apart || pairs_may_be_apart(width));
    return reads_pairs ? column.even_window : column.window;
  }
  FoldedRows folded_rows_of(const AxisPart& row, const AxisPart& column) const;
};

// The folds of a problem whose groups have too few rows for the instruction, none first.
std::vector<FoldChoice> folds_of(const Gather& gather, const TappedPhases& phases);

// Of a flattened() problem. None where a window would have too many residues.
std::optional<FoldedProblem> make_folded(const Conv2dProblem& problem, Direction direction,
                                         bool precise, const TappedPhases& phases,
                                         const FoldChoice& choice);

}  // namespace haloconv::halo
