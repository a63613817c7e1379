#include "conv2d/families/halo/arguments.h"

#include <optional>

#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/tiling.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

namespace {

void set_tensors(Arguments& a, const FoldedProblem& f, const AxisPart& row,
                 const AxisPart& column) {
  const Gather& g = f.gather;
  a.source_n = g.source.n;
  a.source_c = g.source.c;
  a.source_h = narrow(g.source.h);
  a.destination_n = g.destination.n;
  a.destination_c = g.destination.c;
  a.destination_h = row.step;
  a.destination_w = column.step;
  a.images = narrow(f.images);
  a.groups = g.groups;
  a.channels = g.channels;
  a.rows = g.rows;
  a.fold = f.fold;
  a.folded = f.folded_rows_of(row, column);
}

void set_channels(Arguments& a, const FoldedProblem& f, const Plan& plan) {
  a.chunk = f.chunk;
  a.terms = terms_of(plan);
  a.chunks = f.chunks;
  a.splits = plan.splits;
  a.split_chunks = narrow(ceil_div(a.chunks, plan.splits));
  a.packed_steps = packed_steps(plan.splits, a.split_chunks, a.taps);
  a.stages = plan.stages;
  a.chunks_ahead = plan.chunks_ahead;
}

void set_tile(Arguments& a, const Tile& tile, const TileCounts& counts, const Tiling& tiling) {
  a.row_tiles = counts.row_tiles;
  a.tile_images = counts.images;
  a.image_tiles = counts.image_tiles;
  a.tiles = static_cast<uint32_t>(tiling.tiles);
  a.patches = tile.patches;
  a.one_line = is_line(tile) && a.destination_w == 1;
  a.share = tile.share;
  a.group_images = tile.images;
  a.group_rows = tile.rows;
  a.group_columns = tile.columns;
  a.row_tiles_div = FastDiv(a.row_tiles);
  a.w_tiles_div = FastDiv(a.w.tiles);
  a.h_tiles_div = FastDiv(a.h.tiles);
  a.image_tiles_div = FastDiv(a.image_tiles);
  a.columns_div = FastDiv(tile.columns);
  a.rows_div = FastDiv(tile.rows);
}

void set_window(Arguments& a, const Tiling& tiling, bool even) {
  a.even = even;
  a.streams = streams(a.taps);
  a.pitch = a.w.residues * a.w.cells;
  a.image_cells = a.pitch * a.h.residues * a.h.cells;
  a.window_cells = tiling.window_cells;
  a.pair_cells = a.w.residues == 2 ? a.w.cells : 1;
  a.entries = entries_of(a.window_cells, a.even);
  a.image_div = FastDiv(a.image_cells);
  a.pitch_div = FastDiv(a.pitch);
  a.cells_h_div = FastDiv(a.h.cells);
  a.residues_w_div = FastDiv(a.w.residues);
}

// Where things lie in shared memory.
void set_layout(Arguments& a, const Tile& tile) {
  const SharedLayout layout =
      make_layout(a.stages * a.stage_bytes(), tile, a.element_bytes(), a.entries, a.taps);
  a.staging_at = narrow(layout.staging);
  a.table_at = narrow(layout.table);
  a.taps_at = narrow(layout.taps);
  a.tiles_at = narrow(layout.tiles);
  a.barriers_at = narrow(layout.barriers);
}

std::optional<Arguments> make_arguments(const FoldedProblem& f, const Plan& plan,
                                        const TileCounts& counts, const AxisPart& of_row,
                                        const AxisPart& of_column) {
  const auto flat = is_flat(plan.tile) ? flat_parts(f, plan.tile, of_row, of_column) : std::nullopt;
  if (is_flat(plan.tile) && !flat) return std::nullopt;
  const AxisPart& row = flat ? flat->row : of_row;
  const AxisPart& column = flat ? flat->column : of_column;
  const WindowShape& window_w = f.window_of(column, plan.tile.width);
  const AxisTiling rows = make_axis_tiling(row.window, counts.rows);
  const AxisTiling columns = make_columns_tiling(window_w, plan.tile, counts.columns);
  const std::optional<Tiling> tiling = make_tiling(f, counts, rows, columns);
  if (!tiling || !suits_launch(f, plan.tile, counts.row_tiles, row, column) ||
      !is_in_reach(f, plan.tile, counts, row, column)) {
    return std::nullopt;
  }
  Arguments a{};
  a.h = row.window.with_tile(counts.rows);
  a.w = window_w.with_tile(counts.columns);
  a.w.cells = columns.cells / a.w.residues;
  a.w.last = columns.last;
  a.taps = a.h.taps * a.w.taps;
  set_tensors(a, f, row, column);
  set_channels(a, f, plan);
  set_tile(a, plan.tile, counts, *tiling);
  set_window(a, *tiling, window_w.even);
  set_layout(a, plan.tile);
  return a;
}

int64_t packed_bytes(const Arguments& args) {
  return int64_t{args.groups} * args.packed_row_groups() * args.packed_steps * kStepBytes;
}

}  // namespace

std::vector<Launch> make_launches(const Conv2dProblem& problem, const Plan& plan) {
  const std::optional<FoldedProblem> folded =
      make_folded(problem, plan.direction, plan.precise, tapped_phases(problem, plan.direction),
                  {plan.fold, plan.fold_columns});
  if (!folded) return {};
  const TileCounts counts = make_counts(*folded, plan.tile, row_tiles_of(*folded, plan.tile));
  const Strides& destination = folded->gather.destination;
  std::vector<Launch> launches;
  launches.reserve(folded->launches.size());
  int64_t packed_at = 0;
  for (const LaunchPair& of : folded->launches) {
    const AxisPart& row = folded->rows[of.row];
    const AxisPart& column = folded->columns[of.column];
    const auto args = make_arguments(*folded, plan, counts, row, column);
    if (!args) return {};
    if (of.begins_phase && !launches.empty()) packed_at += packed_bytes(launches.back().arguments);
    launches.push_back(
        {row.phase, column.phase, *args, packed_at,
         row.phase.first_pixel * destination.h + column.phase.first_pixel * destination.w});
  }
  return launches;
}

int64_t packed_bytes(const std::vector<Launch>& launches) {
  const Launch& last = launches.back();
  return last.packed_at + packed_bytes(last.arguments);
}

int64_t workspace_bytes(const std::vector<Launch>& launches) {
  return packed_bytes(launches) + counter_bytes(launches.size()) +
         mark_bytes(launches.front().arguments.folded.count);
}

int64_t shared_bytes(const Arguments& args) { return args.barriers_at + kBarriers * 8; }

}  // namespace haloconv::halo
