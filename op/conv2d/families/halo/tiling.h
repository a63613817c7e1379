// What a tile comes to for a folded problem: how many blocks there are, what windows they load, and
// what shared memory they take. Whether a plan may run, and what it is expected to take, follow
// from these few numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

// What the tile alone decides, the same for all launches.
struct TileCounts {
  int32_t rows, columns;  // outputs of a block's tile, along each axis
  int32_t images, image_tiles;
  int32_t row_tiles;  // of a group's accumulators
};
TileCounts make_counts(const FoldedProblem& problem, const Tile& tile, int32_t row_tiles);
int32_t row_tiles_of(const FoldedProblem& problem, const Tile& tile);

// One axis of a launch's tiles: their number and the cells of a window.
struct AxisTiling {
  int32_t tiles;
  int32_t cells;  // of all residues
  int32_t last;   // source pixel of the last, from the window's first
};
inline AxisTiling make_axis_tiling(const WindowShape& window, int32_t tile) {
  const WindowAxis& axis = window.axis;
  const int32_t cells = window.cells(tile);
  return {.tiles = ceil_div_32(axis.outputs, tile),
          .cells = axis.residues * cells,
          .last = (cells - 1) * axis.source_step + axis.residue[axis.residues - 1]};
}
// Of the columns of tiles that write so many. Flat ones compute more.
inline AxisTiling make_columns_tiling(const WindowShape& window, const Tile& tile,
                                      int32_t columns) {
  AxisTiling tiling = make_axis_tiling(window, columns);
  if (is_flat(tile)) {
    const AxisTiling computed = make_axis_tiling(window, tile.instructions * tile.width);
    tiling.cells = computed.cells;
    tiling.last = computed.last;
  }
  return tiling;
}

// A launch: one of the rows with one of the columns.
struct Tiling {
  int32_t tiles;
  int32_t window_cells;
};

// None where there are 2^31 tiles or more, or where a window is larger than shared memory.
std::optional<Tiling> make_tiling(const FoldedProblem& problem, const TileCounts& counts,
                                  const AxisTiling& h, const AxisTiling& w);

// Whether a tile may run at all that keeps weights, or whose results the copy engine writes: not
// where the weights are too many, or where the engine cannot write the results.
bool suits_launch(const FoldedProblem& problem, const Tile& tile, int32_t row_tiles,
                  const AxisPart& row, const AxisPart& column);
inline bool suits_all_launches(const Tile& tile) {
  return !tile.copied && resident_steps(tile) == 0;
}
// Not where a window reaches 2^31 elements, or where a warpgroup's tile spans 2^31 bytes of the
// destination.
bool is_in_reach(const FoldedProblem& problem, const Tile& tile, const TileCounts& counts,
                 const AxisPart& row, const AxisPart& column);

// Where things lie in shared memory: byte offsets after a ring of windows of so many bytes.
struct SharedLayout {
  int64_t staging, table, taps, tiles, barriers, end;
};
SharedLayout make_layout(int64_t windows, const Tile& tile, int64_t element_bytes, int32_t entries,
                         int32_t taps);

}  // namespace haloconv::halo
