#include "conv2d/families/halo/arguments.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <optional>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90 {

namespace {

// With so many taps, windows would drive the weights, which both math groups read, from the L1
// cache; with fewer they gain more by it, where pieces of rows begin within a sector:
// benchmarks/NOTES.md.
constexpr int32_t kStreamTaps = 20;
constexpr int64_t kMaxWindow = kMaxShared / kChunkBytes;  // cells: of two k-halves

int32_t narrow(int64_t value) {
  assert(value == static_cast<int32_t>(value));
  return static_cast<int32_t>(value);
}

// Source pixels of as many residues are what the taps meet.
int32_t residues_of(const Axis& axis, const AxisPhase& phase) {
  return std::min(phase.taps, axis.source_step / std::gcd(axis.source_step, axis.shift_step));
}

// `even`: the window begins at an even pixel and has an even number of them, of one residue or two.
WindowAxis make_axis(const Axis& axis, const AxisPhase& phase, int32_t source_size, int32_t tile,
                     bool even) {
  WindowAxis w{};
  w.outputs = phase.pixels;
  w.tile = tile;
  w.tiles = narrow(ceil_div(phase.pixels, tile));
  w.source_size = source_size;
  w.source_step = axis.source_step;
  w.taps = phase.taps;
  w.shift_step = axis.shift_step;
  const int32_t span = (phase.taps - 1) * axis.shift_step;
  const int32_t least = std::min(span, 0);
  w.origin = phase.origin + phase.first_shift + least;
  w.first_shift = -least;
  const int32_t before = even ? w.origin & 1 : 0;
  w.origin -= before;
  w.first_shift += before;
  for (int32_t tap = 0; tap < std::min(w.taps, axis.source_step); ++tap) {
    const int32_t residue = (w.first_shift + tap * w.shift_step) % w.source_step;
    auto* const end = w.residue + w.residues;
    if (std::find(w.residue, end, residue) != end) continue;
    assert(w.residues < kMaxResidues);
    w.residue[w.residues++] = residue;
  }
  std::sort(w.residue, w.residue + w.residues);
  w.cells = tile + (std::abs(span) + before) / w.source_step;
  if (even && w.source_step == 1) w.cells = round_up(w.cells, 2);
  w.last = (w.cells - 1) * w.source_step + w.residue[w.residues - 1];
  return w;
}

// The source's last pixel of a window, from the window's first, which may lie before the source's.
double last_in_source(const WindowAxis& axis) {
  return std::min(axis.last, axis.source_size - 1 - std::min(axis.origin, 0));
}

// Of a phase, or a part of one.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Gather& g,
                                        const Plan& plan, const Fold& fold, const AxisPhase& part_h,
                                        const AxisPhase& part_w) {
  const bool columns = plan.fold_columns;
  const Fold none;
  const Fold &fold_h = columns ? none : fold, &fold_w = columns ? fold : none;
  const Axis axis_h = folded(fold_h, g.axis_h), axis_w = folded(fold_w, g.axis_w);
  const AxisPhase h = folded(fold_h, g.axis_h, part_h), w = folded(fold_w, g.axis_w, part_w);
  if (std::max(residues_of(axis_h, h), residues_of(axis_w, w)) > kMaxResidues) {
    return std::nullopt;
  }
  const Tile& tile = plan.tile;
  const auto share = [&](Share axis) { return tile.share == axis ? kMathGroups : 1; };
  Arguments a{};
  a.source_n = g.source.n;
  a.source_c = g.source.c;
  a.source_h = narrow(g.source.h);
  a.destination_n = g.destination.n;
  a.destination_c = g.destination.c;
  // A single pixel has no neighbour, whose distance might pass 32 bits.
  a.destination_h = h.pixels > 1 ? narrow(g.destination.h * axis_h.pixel_step) : 0;
  a.destination_w = w.pixels > 1 ? narrow(g.destination.w * axis_w.pixel_step) : 1;
  a.images = narrow(problem.n);
  a.groups = g.groups;
  a.channels = g.channels;
  a.rows = g.rows;
  a.fold = fold;
  a.folded.step = fold.parts * (columns ? g.destination.w * g.axis_w.pixel_step
                                        : g.destination.h * g.axis_h.pixel_step);
  a.folded.count = fold.count;
  a.folded.columns = columns;
  a.folded.pixels = (columns ? part_w : part_h).pixels;
  int64_t folded_rows = g.rows;
  if (fold.count > 1) {
    a.folded.shift = std::countr_zero(static_cast<uint64_t>(folded_channels(g.rows)));
    folded_rows = fold.count * folded_channels(g.rows);
  }
  a.row_tiles = narrow(ceil_div(folded_rows, kRowsOfGroup * share(Share::kChannels)));
  a.tile_images = tile.images * share(Share::kImages);
  a.image_tiles = narrow(ceil_div(problem.n, a.tile_images));
  const bool neighbours =
      axis_w.source_step == 1 ||
      (axis_w.source_step == 2 && residues_of(axis_w, w) == 2 && pairs_may_be_apart(tile.width));
  a.even = neighbours && g.source_w % 2 == 0 && a.source_h % 2 == 0 && a.source_c % 2 == 0 &&
           a.source_n % 2 == 0;
  a.h = make_axis(axis_h, h, g.source_h, tile.rows * share(Share::kRows), false);
  a.w = make_axis(axis_w, w, g.source_w, tile.columns * share(Share::kColumns), a.even);
  // In floating point: the product of five 32-bit counts may pass 64 bits.
  const double tiles = static_cast<double>(a.groups) * a.row_tiles * a.image_tiles *
                       static_cast<double>(a.h.tiles) * a.w.tiles;
  if (tiles > INT32_MAX) return std::nullopt;
  // A window's table has each pixel's distance from its first in 32 bits.
  const double reach = (std::min(a.tile_images, a.images) - 1) * static_cast<double>(a.source_n) +
                       last_in_source(a.h) * a.source_h + last_in_source(a.w);
  if (reach > INT32_MAX) return std::nullopt;
  // A lane counts the bytes of its warpgroup's tile in 32 bits, from its first pixel.
  const double across = static_cast<double>(tile.images - 1) * a.destination_n +
                        static_cast<double>(tile.rows - 1) * a.destination_h +
                        static_cast<double>(tile.columns) * a.destination_w;
  if (across * static_cast<double>(size_of(problem.type)) > INT32_MAX) return std::nullopt;
  a.tiles = static_cast<uint32_t>(tiles);
  a.taps = a.h.taps * a.w.taps;
  a.chunk = chunk_of(problem.type);
  a.parts = parts_of(plan);
  a.chunks = narrow(ceil_div(a.channels, a.chunk));
  if (const int steps = resident_steps(tile.width);
      steps > 0 && (a.taps * int64_t{a.chunks} > steps || a.groups * a.row_tiles > 1)) {
    return std::nullopt;
  }
  a.splits = plan.splits;
  a.split_chunks = narrow(ceil_div(a.chunks, plan.splits));
  a.packed_steps = narrow(plan.splits * a.split_chunks * a.taps + kBatchSteps);
  a.streams = a.taps >= kStreamTaps;
  a.strips = tile.strips;
  a.one_line = !tile.strips && tile.images * tile.rows == 1 && a.destination_w == 1;
  a.share = tile.share;
  a.group_images = tile.images;
  a.group_rows = tile.rows;
  a.group_columns = tile.columns;
  a.stages = plan.stages;
  // Of the split with the fewest chunks too: its second math group waits for so many. Where they
  // are one, it begins when the first group has computed a tile.
  const int32_t least_chunks = a.chunks - (plan.splits - 1) * a.split_chunks;
  a.lead = std::max(std::min(plan.stages - 1, std::max(least_chunks / 2, 1)), 0);
  const int64_t pitch = int64_t{a.w.residues} * a.w.cells;
  const int64_t lines = int64_t{a.h.residues} * a.h.cells;
  if (std::max(pitch, lines) > kMaxWindow || pitch * lines * a.tile_images > kMaxWindow) {
    return std::nullopt;
  }
  a.pitch = narrow(pitch);
  a.image_cells = narrow(pitch * lines);
  a.window_cells = a.tile_images * a.image_cells;
  a.row_tiles_div = FastDiv(a.row_tiles);
  a.w_tiles_div = FastDiv(a.w.tiles);
  a.h_tiles_div = FastDiv(a.h.tiles);
  a.image_tiles_div = FastDiv(a.image_tiles);
  a.pair_cells = a.w.residues == 2 ? a.w.cells : 1;
  a.entries = a.even ? a.window_cells / 2 : a.window_cells;
  a.image_div = FastDiv(a.image_cells);
  a.pitch_div = FastDiv(a.pitch);
  a.cells_h_div = FastDiv(a.h.cells);
  a.residues_w_div = FastDiv(a.w.residues);
  a.columns_div = FastDiv(tile.columns);
  a.rows_div = FastDiv(tile.rows);
  int64_t at = a.stages * a.stage_bytes();
  const auto place = [&](int64_t bytes) {
    const int64_t here = at;
    at += round_up(bytes, 16);
    return narrow(here);
  };
  a.staging_at = place(staging_bytes(tile));
  a.table_at = place(round_up(a.entries, kLoadThreads) * kEntryBytes);
  a.taps_at = place(int64_t{a.taps + kTapsAgain} * 4);
  a.tiles_at = place(kQueuedTiles * 4);
  a.barriers_at = place(kBarriers * 8);
  return a;
}

int64_t packed_bytes(const Arguments& args) {
  return int64_t{args.groups} * packed_row_groups(args) * args.packed_steps * kStepBytes;
}

}  // namespace

std::vector<Launch> make_launches(const Conv2dProblem& problem, const Plan& plan) {
  const Gather gather = make_gather(problem, plan.direction);
  const Axis& axis = plan.fold_columns ? gather.axis_w : gather.axis_h;
  const Fold fold = make_fold(axis, plan.fold);
  std::vector<Launch> launches;
  int64_t packed_at = 0;
  for (const Phase& phase : tapped_phases(problem, plan.direction)) {
    for (const AxisPhase& part : parts_of(fold, axis, plan.fold_columns ? phase.w : phase.h)) {
      const AxisPhase& h = plan.fold_columns ? phase.h : part;
      const AxisPhase& w = plan.fold_columns ? part : phase.w;
      const auto args = make_arguments(problem, gather, plan, fold, h, w);
      if (!args) return {};
      const int64_t destination_at =
          h.first_pixel * gather.destination.h + w.first_pixel * gather.destination.w;
      launches.push_back({h, w, *args, packed_at, destination_at});
    }
    packed_at += packed_bytes(launches.back().arguments);
  }
  return launches;
}

int32_t packed_row_groups(const Arguments& args) {
  return args.row_tiles * (args.share == Share::kChannels ? kMathGroups : 1);
}

int64_t packed_bytes(const std::vector<Launch>& launches) {
  const Launch& last = launches.back();
  return last.packed_at + packed_bytes(last.arguments);
}

int64_t workspace_bytes(const std::vector<Launch>& launches) {
  return packed_bytes(launches) + round_up(static_cast<int64_t>(launches.size()) * 4, 16);
}

int64_t shared_bytes(const Arguments& args) { return args.barriers_at + kBarriers * 8; }

}  // namespace haloconv::sm90
