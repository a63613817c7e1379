#include "conv2d/families/halo/tiling.h"

#include <algorithm>
#include <bit>

#include "conv2d/families/halo/copied_shape.h"
#include "conv2d/families/halo/copied_tiling.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

constexpr int64_t kMaxWindow = kMaxShared / kChunkBytes;  // cells: of two k-halves

int32_t share_of(const Tile& tile, Share share) { return tile.share == share ? kMathGroups : 1; }

// The source's last pixel of a window, from the window's first, which may lie before the source's.
double last_in_source(const WindowAxis& axis, int32_t last) {
  return std::min(last, axis.source_size - 1 - std::min(axis.origin, 0));
}

// A window's table has each pixel's distance from its first in 32 bits.
bool reaches_too_far(const FoldedProblem& problem, const TileCounts& counts, const WindowAxis& row,
                     const WindowAxis& column, const AxisTiling& h, const AxisTiling& w) {
  const double images = static_cast<double>(std::min<int64_t>(counts.images, problem.images) - 1);
  return images * static_cast<double>(problem.gather.source.n) +
             last_in_source(row, h.last) * static_cast<double>(problem.gather.source.h) +
             last_in_source(column, w.last) >
         INT32_MAX;
}

// A lane counts the bytes of its warpgroup's tile in 32 bits, from its first pixel.
bool spans_too_much(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                    const AxisPart& column) {
  const double across =
      static_cast<double>(tile.images - 1) * static_cast<double>(problem.gather.destination.n) +
      static_cast<double>(tile.rows - 1) * row.step +
      static_cast<double>(tile.columns) * column.step;
  return across * problem.element_bytes > INT32_MAX;
}

}  // namespace

int32_t row_tiles_of(const FoldedProblem& problem, const Tile& tile) {
  return narrow(ceil_div(problem.folded_rows, kRowsOfGroup * share_of(tile, Share::kChannels)));
}

TileCounts make_counts(const FoldedProblem& problem, const Tile& tile, int32_t row_tiles) {
  TileCounts counts{};
  counts.rows = tile.rows * share_of(tile, Share::kRows);
  counts.columns = tile.columns * share_of(tile, Share::kColumns);
  counts.images = tile.images * share_of(tile, Share::kImages);
  // A power of two, for planners count the tiles of many plans.
  counts.image_tiles = narrow((problem.images + counts.images - 1) >>
                              std::countr_zero(static_cast<uint32_t>(counts.images)));
  counts.row_tiles = row_tiles;
  return counts;
}

std::optional<Tiling> make_tiling(const FoldedProblem& problem, const TileCounts& counts,
                                  const AxisTiling& h, const AxisTiling& w) {
  // In floating point: the product of five 32-bit counts may pass 64 bits.
  const double tiles = static_cast<double>(problem.gather.groups) * counts.row_tiles *
                       counts.image_tiles * static_cast<double>(h.tiles) * w.tiles;
  const int64_t pitch = w.cells, lines = h.cells;
  if (tiles > INT32_MAX || std::max(pitch, lines) > kMaxWindow ||
      pitch * lines * counts.images > kMaxWindow) {
    return std::nullopt;
  }
  return Tiling{.tiles = static_cast<int32_t>(tiles),
                .window_cells = static_cast<int32_t>(pitch * lines * counts.images)};
}

bool suits_launch(const FoldedProblem& problem, const Tile& tile, int32_t row_tiles,
                  const AxisPart& row, const AxisPart& column) {
  if (const int steps = resident_steps(tile); steps > 0) {
    const int64_t taps = int64_t{row.window.axis.taps} * column.window.axis.taps;
    if (taps * problem.chunks > steps || problem.gather.groups * row_tiles > 1) return false;
  }
  return !tile.copied || is_flat(tile) || may_copy(problem, tile, row, column);
}

bool is_in_reach(const FoldedProblem& problem, const Tile& tile, const TileCounts& counts,
                 const AxisPart& row, const AxisPart& column) {
  if (spans_too_much(problem, tile, row, column)) return false;
  if (!problem.is_far) return true;
  const WindowShape& window = problem.window_of(column, tile.width);
  return !reaches_too_far(problem, counts, row.window.axis, window.axis,
                          make_axis_tiling(row.window, counts.rows),
                          make_columns_tiling(window, tile, counts.columns));
}

SharedLayout make_layout(int64_t windows, const Tile& tile, int64_t element_bytes, int32_t entries,
                         int32_t taps) {
  SharedLayout layout{};
  int64_t at = windows;
  const auto place = [&](int64_t bytes) {
    const int64_t here = at;
    at += round_up(bytes, 16);
    return here;
  };
  if (tile.copied) {
    at = round_up(at, kCopiedAlignment);
    layout.staging = place(copied_staging_bytes(tile, element_bytes));
  } else {
    layout.staging = place(staging_bytes(tile));
  }
  layout.table = place(round_up(entries, kLoadThreads) * kEntryBytes);
  layout.taps = place(int64_t{taps + kTapsAgain} * 4);
  layout.tiles = place(kQueuedTiles * 4);
  layout.barriers = place(kBarriers * 8);
  layout.end = layout.barriers + kBarriers * 8;
  return layout;
}

}  // namespace haloconv::halo
