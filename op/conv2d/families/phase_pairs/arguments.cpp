#include "conv2d/families/phase_pairs/arguments.h"

#include <algorithm>
#include <bit>

#include "conv2d/families/phase_pairs/problem_pattern.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::phase_pairs {

namespace {

constexpr int64_t kMostShared = 226 * 1024;
constexpr int64_t kMostBox = 256;  // elements of a copy along a dimension
constexpr int kCopyColumns = 4;  // 16 bytes; a copy that begins elsewhere is an illegal instruction
constexpr int kFlatColumns = 128;  // if the source is one row
constexpr int kBarrierBytes = 2 * kMaxStages * 8;

int32_t log2_of(int32_t power) { return std::countr_zero(static_cast<uint32_t>(power)); }

// Whether eight neighbours of a row, of four values of k so far apart, lie in 32 banks.
bool meets_all_banks(int32_t k_words) { return k_words % 32 == 8 || k_words % 32 == 24; }

// Whether each pair of pixels meets only the source pixel of the same number. Then rows may be cut
// anywhere.
bool is_pointwise(const Conv2dProblem& p, const std::vector<AxisPhase>& rows,
                  const std::vector<AxisPhase>& columns) {
  const auto fits = [](const AxisPhase& phase, int64_t source) {
    return phase.taps == 1 && phase.origin + phase.first_shift == 0 && phase.pixels == source;
  };
  return std::all_of(rows.begin(), rows.end(), [&](auto& r) { return fits(r, p.p()); }) &&
         std::all_of(columns.begin(), columns.end(), [&](auto& c) { return fits(c, p.q()); }) &&
         p.output.h == p.q() && p.p() * p.q() % kFlatColumns == 0;
}

// What tiles are cut from: the result's pairs, by columns and rows, and the source.
struct Extents {
  int64_t pair_columns, pair_rows;
  int64_t source_columns, source_rows;
  int64_t source_row;  // from row to row of the source
};

void set_result(const Conv2dProblem& p, const Gather& gather, Arguments& a) {
  a.destination_n = gather.destination.n;
  a.destination_c = gather.destination.c;
  a.destination_h = gather.destination.h;
  a.channels = gather.rows;
  a.images = narrow(p.n);
  a.width = narrow(p.w);
  a.pairs = p.w % 2 == 0 && a.destination_n % 2 == 0 && a.destination_c % 2 == 0 &&
            a.destination_h % 2 == 0;
  a.stride_h = narrow(p.stride_h);
}

// With pixels that meet one source pixel each, images are one long row, cut as tiles are wide.
Extents set_extents(const Conv2dProblem& p, const Gather& gather,
                    const std::vector<AxisPhase>& rows, const std::vector<AxisPhase>& columns,
                    const Tile& tile, Arguments& a) {
  a.is_flat =
      tile.pattern.shifts == 1 && tile.columns == kFlatColumns && is_pointwise(p, rows, columns);
  if (!a.is_flat) {
    return {columns.front().pixels, rows.front().pixels, p.q(), p.p(), gather.source.h};
  }
  a.flat_columns = FastDiv(p.q());
  const int64_t flat_rows = p.p() * p.q() / kFlatColumns;
  return {kFlatColumns, flat_rows, kFlatColumns, flat_rows, kFlatColumns};
}

// Returns whether the kernels can count so many.
bool set_tiles(const Extents& extents, size_t row_phases, const Tile& tile, Arguments& a) {
  a.log2_columns = log2_of(tile.columns);
  a.log2_rows = log2_of(tile.rows);
  const int64_t column_tiles = ceil_div(extents.pair_columns, tile.columns);
  const int64_t row_tiles = ceil_div(extents.pair_rows, tile.rows);
  const int64_t image_tiles = ceil_div(a.images, tile.images);
  const int64_t channel_tiles = ceil_div(a.channels, tile.channels);
  const double tiles = static_cast<double>(column_tiles) * row_tiles * image_tiles * channel_tiles *
                       static_cast<double>(row_phases);
  if (tiles > INT32_MAX - 65536) return false;
  a.tiles = static_cast<int32_t>(tiles);
  a.channel_tiles = FastDiv(channel_tiles);
  a.row_phases = FastDiv(static_cast<int64_t>(row_phases));
  a.column_tiles = FastDiv(column_tiles);
  a.row_tiles = FastDiv(row_tiles);
  return true;
}

// Returns whether the matrix instruction reads the window without bank conflicts.
bool set_words(Arguments& a) {
  const int32_t plane = a.box[0] * a.box[1];
  a.interleaves = !meets_all_banks(plane);
  a.row_words = a.box[0];
  a.k_words = a.interleaves ? 2 * plane : plane;
  a.half_words = a.interleaves ? plane : 4 * plane;
  a.image_words = a.box[2] * plane;
  return meets_all_banks(a.k_words);
}

// Returns whether the copy engine can bring the window.
bool set_window(int32_t lowest_shift, int32_t most_taps, const Tile& tile, Arguments& a) {
  a.columns_before = (lowest_shift % kCopyColumns + kCopyColumns) % kCopyColumns;
  a.column_origin = lowest_shift - a.columns_before;
  a.box[0] =
      narrow(round_up(a.columns_before + tile.columns + tile.pattern.shifts - 1, kCopyColumns));
  a.box[1] = tile.rows + most_taps - 1;
  a.box[2] = tile.pattern.depth();
  a.box[3] = tile.images;
  if (!set_words(a)) {
    a.box[0] += kCopyColumns;  // more than it needs, against bank conflicts
    if (!set_words(a)) {
      a.box[0] -= kCopyColumns;
      set_words(a);
    }
  }
  a.window_bytes = a.image_words * tile.images * 4;
  return std::all_of(std::begin(a.box), std::end(a.box),
                     [](int32_t extent) { return extent <= kMostBox; });
}

void set_source(const Gather& gather, const Extents& extents, Arguments& a) {
  a.source_extents[0] = extents.source_columns;
  a.source_extents[1] = extents.source_rows;
  a.source_extents[2] = gather.channels;
  a.source_extents[3] = a.images;
  a.source_strides[0] = 1;
  a.source_strides[1] = extents.source_row;
  a.source_strides[2] = gather.source.c;
  a.source_strides[3] = gather.source.n;
}

void set_filter(const Strides& filter, const Gather& gather, const std::vector<AxisPhase>& columns,
                int32_t lowest_shift, Arguments& a) {
  a.filter_k = filter.n;
  a.filter_c = filter.c;
  a.filter_r = filter.h;
  a.filter_s = filter.w;
  a.filter_channels = gather.channels;
  a.step_r = gather.axis_h.tap_step;
  a.step_s = gather.axis_w.tap_step;
  for (int i = 0; i < kPhases; ++i) {
    const AxisPhase& column = columns[i];
    const int32_t first_tap = column.origin + column.first_shift - lowest_shift;
    a.first_s[i] = column.first_tap + first_tap * gather.axis_w.tap_step;
  }
}

// Returns the most bytes that a chunk of the packed filter has, for a tile's channels.
int32_t set_row_phases(const std::vector<AxisPhase>& rows, const Tile& tile, Arguments& a) {
  int32_t most_step_bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    RowPhase& phase = a.phase[i];
    phase.first_row = rows[i].first_pixel;
    phase.rows = rows[i].pixels;
    phase.taps = rows[i].taps;
    phase.origin = rows[i].origin + rows[i].first_shift - (rows[i].taps - 1);
    phase.first_r = rows[i].first_tap + (rows[i].taps - 1) * a.step_r;
    phase.packed_at = a.packed_bytes;
    phase.step_bytes =
        phase.taps * tile.pattern.slots() * (tile.pattern.depth() / 8) * tile.channels * 32;
    most_step_bytes = std::max(most_step_bytes, phase.step_bytes);
    a.packed_bytes += int64_t{a.channel_tiles.divisor} * a.chunks * phase.step_bytes;
  }
  return most_step_bytes;
}

// Returns whether shared memory holds two stages.
bool set_stages(int32_t most_step_bytes, const Tile& tile, Arguments& a) {
  a.stage_bytes = narrow(round_up(a.window_bytes, 128)) + most_step_bytes;
  const int64_t room =
      (tile.blocks == 1 ? kMostShared / 2 - 1024 : kMostShared) - kBarrierBytes - 128;
  a.stages = static_cast<int32_t>(std::min<int64_t>(kMaxStages, room / a.stage_bytes));
  a.chunks_ahead = std::min(a.stages - 1, a.chunks / 2);
  return a.stages >= 2;
}

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& p, const Tile& tile) {
  const Gather gather = make_gather(p, Direction::kDgrad);
  const auto rows = make_row_phases(p, Direction::kDgrad);
  const auto columns = make_column_phases(p, Direction::kDgrad);
  const int32_t lowest_shift = lowest_of(columns).shift;
  const int32_t most_taps = std::ranges::max_element(rows, {}, &AxisPhase::taps)->taps;
  Arguments a{};
  set_result(p, gather, a);
  a.chunks = ceil_div_32(gather.channels, tile.pattern.depth());
  const Extents extents = set_extents(p, gather, rows, columns, tile, a);
  if (!set_tiles(extents, rows.size(), tile, a)) return std::nullopt;
  if (!set_window(lowest_shift, most_taps, tile, a)) return std::nullopt;
  set_source(gather, extents, a);
  set_filter(p.filter, gather, columns, lowest_shift, a);
  if (!set_stages(set_row_phases(rows, tile, a), tile, a)) return std::nullopt;
  return a;
}

int64_t shared_bytes(const Arguments& args) {
  return int64_t{args.stages} * args.stage_bytes + kBarrierBytes + 128;
}

}  // namespace haloconv::phase_pairs
