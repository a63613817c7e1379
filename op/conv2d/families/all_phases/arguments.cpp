#include "conv2d/families/all_phases/arguments.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv::all_phases {

namespace {

constexpr int64_t kMostShared = 226 * 1024;

// A stride means nothing where the source has one position: then one as wide as the filter gives
// each tap a pixel of its own.
Axis make_axis(int64_t stride, int64_t taps, int64_t pad, int64_t extent, int64_t source) {
  if (source == 1) stride = std::max(stride, taps);
  Axis axis{};
  axis.stride = narrow(stride);
  axis.taps = narrow(taps);
  axis.pad = narrow(pad);
  axis.extent = narrow(extent);
  axis.source_extent = narrow(source);
  axis.shifts = narrow(ceil_div(taps, stride));
  const int32_t beyond = axis.pad % axis.stride;
  axis.first = -beyond;
  axis.periods = narrow(ceil_div(extent + beyond, stride));
  // Period i meets, by shift u, the source's i + pad / stride - u: position i + shifts - 1 - u.
  axis.source_at = axis.shifts - 1 - axis.pad / axis.stride;
  axis.positions = std::max({axis.periods, axis.source_at + axis.source_extent,
                             axis.periods + axis.shifts - 1 - axis.source_at});
  return axis;
}

bool is_unit(int64_t extent, int64_t stride, int64_t elements) {
  return extent == 1 || stride % elements == 0;
}

int64_t tile_periods(const Tile& tile) { return int64_t{kMathGroups} * 64 * tile.blocks; }

void set_axes(const Conv2dProblem& p, Arguments& a) {
  a.h = make_axis(p.stride_h, p.r, p.pad_top, p.h, p.p());
  a.w = make_axis(p.stride_w, p.s, p.pad_left, p.w, p.q());
  a.row_positions = FastDiv(a.w.positions);
  a.image_positions = FastDiv(a.h.positions);
  a.stride_h = FastDiv(a.h.stride);
  a.stride_w = FastDiv(a.w.stride);
  for (const Axis* axis : {&a.h, &a.w}) {
    if (axis->taps % axis->stride == 0) continue;
    (axis->shifts == 1 ? a.has_idle_columns : a.has_gaps) = true;
  }
}

void set_tensors(const Conv2dProblem& p, bool groups_apart, int32_t unit, Arguments& a) {
  const int64_t channels = groups_apart ? p.group_c() : p.c;
  const int64_t source_channels = groups_apart ? p.group_k() : p.k;
  a.channels = FastDiv(channels);
  a.images = narrow(p.n);
  a.source_channels = narrow(source_channels);
  a.group_channels = FastDiv(p.group_c());
  a.group_sources = FastDiv(p.group_k());
  a.chunks = static_cast<int32_t>(ceil_div(source_channels, int64_t{kChunkUnits} * unit));
  a.channels_innermost = p.input.c == 1 && p.c > 1;
  a.reads_units = p.output.c == 1 && source_channels % unit == 0 &&
                  is_unit(p.n, p.output.n, unit) && is_unit(p.p(), p.output.h, unit) &&
                  is_unit(p.q(), p.output.w, unit);
  a.source_n = p.output.n;
  a.source_c = p.output.c;
  a.source_h = p.output.h;
  a.source_w = p.output.w;
  a.destination_n = p.input.n;
  a.destination_c = p.input.c;
  a.destination_h = p.input.h;
  a.destination_w = p.input.w;
  a.filter_k = p.filter.n;
  a.filter_c = p.filter.c;
  a.filter_r = p.filter.h;
  a.filter_s = p.filter.w;
}

// How the epilogue writes results: which are neighbours, and whether two are written at once.
void set_writes(const Conv2dProblem& p, Arguments& a) {
  const auto is_even = [](int64_t number) { return number % 2 == 0; };
  a.writes_pairs = is_even(p.input.n) && is_even(p.input.h) &&
                   (a.channels_innermost ? is_even(a.channels.divisor) && is_even(p.input.w)
                                         : p.input.w == 1 && is_even(p.input.c) && is_even(p.w) &&
                                               is_even(a.w.stride) && is_even(a.w.first));
  const int32_t run = a.channels_innermost ? kSliceColumns : a.w.stride;
  a.log2_run = run >= kSliceColumns
                   ? std::countr_zero(static_cast<uint32_t>(kSliceColumns))
                   : (kSliceColumns % run == 0 ? std::countr_zero(static_cast<uint32_t>(run)) : 0);
}

// Returns whether the kernels can count so many.
bool set_tiles(const Conv2dProblem& p, const Tile& tile, Arguments& a) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t products = p.c / a.channels.divisor;
  const int64_t columns = int64_t{a.channels.divisor} * a.h.stride * a.w.stride;
  const int64_t periods = int64_t{a.images} * a.h.positions * a.w.positions;
  const int64_t window =
      tile_periods(tile) + int64_t{a.h.shifts - 1} * a.w.positions + a.w.shifts - 1;
  const int64_t product_tiles = ceil_div(columns, tile.columns);
  const int64_t column_tiles = products * product_tiles;
  const int64_t period_tiles = ceil_div(periods, tile_periods(tile));
  if (columns > kMost || periods + window > kMost || column_tiles * period_tiles > kMost) {
    return false;
  }
  a.columns = static_cast<int32_t>(columns);
  a.window = static_cast<int32_t>(round_up(window, 8));
  a.column_tiles = FastDiv(column_tiles);
  a.product_tiles = FastDiv(product_tiles);
  a.tiles = static_cast<int32_t>(column_tiles * period_tiles);
  if (tile.packs_source) {
    a.packed_positions = static_cast<int32_t>((period_tiles - 1) * tile_periods(tile) + a.window);
  }
  return true;
}

// The packed filter and the stages. Returns whether shared memory holds two of them.
bool set_memory(const Tile& tile, Arguments& a) {
  const int64_t column_tiles = a.column_tiles.divisor;
  const int64_t filter_bytes = int64_t{a.h.shifts} * a.w.shifts * tile.columns * kChunkUnits * 16;
  a.flags_at = round_up(column_tiles * a.chunks * filter_bytes, 128);
  a.packed_bytes = a.flags_at + round_up(column_tiles * tile.columns * a.chunks * kChunkUnits, 128);
  const int64_t window_bytes = int64_t{a.window} * kChunkUnits * 16;
  const int64_t stage_bytes = round_up(window_bytes + filter_bytes, 128);
  const int64_t room =
      (tile.blocks == 1 ? kMostShared / 2 - 1024 : kMostShared) - beside_stages(tile) - 128;
  if (stage_bytes * 2 > room) return false;
  a.window_bytes = static_cast<int32_t>(window_bytes);
  a.filter_bytes = static_cast<int32_t>(filter_bytes);
  a.stage_bytes = static_cast<int32_t>(stage_bytes);
  a.stages = static_cast<int32_t>(std::min<int64_t>(kMaxStages, room / stage_bytes));
  return true;
}

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& p, const Tile& tile) {
  const auto unit = static_cast<int32_t>(16 / size_of(p.type));  // elements of 16 bytes
  Arguments a{};
  set_axes(p, a);
  set_tensors(p, tile.has_groups_apart, unit, a);
  set_writes(p, a);
  if (!set_tiles(p, tile, a) || !set_memory(tile, a)) return std::nullopt;
  return a;
}

int64_t packed_source_bytes(const Arguments& args) {
  return int64_t{args.chunks} * kChunkUnits * args.packed_positions * 16;
}

int64_t shared_bytes(const Arguments& args, const Tile& tile) {
  return int64_t{args.stages} * args.stage_bytes + beside_stages(tile) + 128;
}

int32_t blocks_of(const Arguments& args, const Tile& tile, int32_t most) {
  if (args.tiles <= most) return args.tiles;
  // Of few columns, a block keeps those of the tile before if it can.
  if (takes_lone_weights(tile.columns)) return most;
  const int64_t rounds = ceil_div(args.tiles, most);
  const int32_t column_tiles = args.column_tiles.divisor;
  // Fewer than these would have more tiles each.
  const auto least = static_cast<int32_t>(ceil_div(args.tiles, rounds));
  for (int32_t blocks = most; blocks >= least; --blocks) {
    // A block comes to a column tile again after so many tiles.
    const int64_t different = column_tiles / std::gcd(blocks, column_tiles);
    if (different >= std::min<int64_t>(rounds, column_tiles)) return blocks;
  }
  return most;
}

}  // namespace haloconv::all_phases
