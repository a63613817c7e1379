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

}  // namespace

std::optional<Arguments> make_arguments(const Conv2dProblem& p, const Tile& tile) {
  const Gather gather = make_gather(p, Direction::kDgrad);
  const auto rows = make_row_phases(p, Direction::kDgrad);
  const auto columns = make_column_phases(p, Direction::kDgrad);
  Arguments a{};
  a.destination_n = gather.destination.n;
  a.destination_c = gather.destination.c;
  a.destination_h = gather.destination.h;
  a.channels = gather.rows;
  a.images = narrow(p.n);
  a.width = narrow(p.w);
  a.pairs = p.w % 2 == 0 && a.destination_n % 2 == 0 && a.destination_c % 2 == 0 &&
            a.destination_h % 2 == 0;
  const int depth = tile.pattern.depth();
  a.chunks = ceil_div_32(gather.channels, depth);
  a.stride_h = narrow(p.stride_h);

  // The result's pairs, and the source, by the columns and rows of the tiles.
  a.is_flat =
      tile.pattern.shifts == 1 && tile.columns == kFlatColumns && is_pointwise(p, rows, columns);
  int64_t pair_columns = columns.front().pixels, pair_rows = rows.front().pixels;
  int64_t source_columns = p.q(), source_rows = p.p();
  if (a.is_flat) {
    a.flat_columns = FastDiv(p.q());
    pair_columns = source_columns = kFlatColumns;
    pair_rows = source_rows = p.p() * p.q() / kFlatColumns;
  }
  const int64_t source_row = a.is_flat ? kFlatColumns : gather.source.h;
  a.log2_columns = log2_of(tile.columns);
  a.log2_rows = log2_of(tile.rows);
  int32_t most_taps = 0;
  for (const AxisPhase& row : rows) most_taps = std::max(most_taps, row.taps);
  const int64_t column_tiles = ceil_div(pair_columns, tile.columns);
  const int64_t row_tiles = ceil_div(pair_rows, tile.rows);
  const int64_t image_tiles = ceil_div(p.n, tile.images);
  const int64_t channel_tiles = ceil_div(gather.rows, tile.channels);
  const double tiles = static_cast<double>(column_tiles) * row_tiles * image_tiles * channel_tiles *
                       static_cast<double>(rows.size());
  if (tiles > INT32_MAX - 65536) return std::nullopt;
  a.tiles = static_cast<int32_t>(tiles);
  a.channel_tiles = FastDiv(channel_tiles);
  a.row_phases = FastDiv(static_cast<int64_t>(rows.size()));
  a.column_tiles = FastDiv(column_tiles);
  a.row_tiles = FastDiv(row_tiles);

  const Lowest lowest = lowest_of(columns);
  a.columns_before = (lowest.shift % kCopyColumns + kCopyColumns) % kCopyColumns;
  a.column_origin = lowest.shift - a.columns_before;

  // The window. It may have four columns more than it needs, against bank conflicts.
  a.box[0] =
      narrow(round_up(a.columns_before + tile.columns + tile.pattern.shifts - 1, kCopyColumns));
  a.box[1] = tile.rows + most_taps - 1;
  a.box[2] = depth;
  a.box[3] = tile.images;
  const auto set_words = [&] {
    const int32_t plane = a.box[0] * a.box[1];
    a.interleaves = !meets_all_banks(plane);
    a.row_words = a.box[0];
    a.k_words = a.interleaves ? 2 * plane : plane;
    a.half_words = a.interleaves ? plane : 4 * plane;
    a.image_words = depth * plane;
    return meets_all_banks(a.k_words);
  };
  if (!set_words()) {
    a.box[0] += kCopyColumns;
    if (!set_words()) {
      a.box[0] -= kCopyColumns;
      set_words();
    }
  }
  for (const int32_t extent : a.box) {
    if (extent > kMostBox) return std::nullopt;
  }
  a.window_bytes = a.image_words * tile.images * 4;
  a.source_extents[0] = source_columns;
  a.source_extents[1] = source_rows;
  a.source_extents[2] = gather.channels;
  a.source_extents[3] = p.n;
  a.source_strides[0] = 1;
  a.source_strides[1] = source_row;
  a.source_strides[2] = gather.source.c;
  a.source_strides[3] = gather.source.n;

  a.filter_k = p.filter.n;
  a.filter_c = p.filter.c;
  a.filter_r = p.filter.h;
  a.filter_s = p.filter.w;
  a.filter_channels = gather.channels;
  a.step_r = gather.axis_h.tap_step;
  a.step_s = gather.axis_w.tap_step;
  for (int i = 0; i < kPhases; ++i) {
    const AxisPhase& column = columns[i];
    const int32_t first_tap = column.origin + column.first_shift - lowest.shift;
    a.first_s[i] = column.first_tap + first_tap * gather.axis_w.tap_step;
  }
  int32_t most_step_bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    RowPhase& phase = a.phase[i];
    phase.first_row = rows[i].first_pixel;
    phase.rows = rows[i].pixels;
    phase.taps = rows[i].taps;
    phase.origin = rows[i].origin + rows[i].first_shift - (rows[i].taps - 1);
    phase.first_r = rows[i].first_tap + (rows[i].taps - 1) * gather.axis_h.tap_step;
    phase.packed_at = a.packed_bytes;
    phase.step_bytes = phase.taps * tile.pattern.slots() * (depth / 8) * tile.channels * 32;
    most_step_bytes = std::max(most_step_bytes, phase.step_bytes);
    a.packed_bytes += channel_tiles * a.chunks * int64_t{phase.step_bytes};
  }
  a.stage_bytes = narrow(round_up(a.window_bytes, 128)) + most_step_bytes;
  const int64_t room =
      (tile.blocks == 1 ? kMostShared / 2 - 1024 : kMostShared) - kBarrierBytes - 128;
  a.stages = static_cast<int32_t>(std::min<int64_t>(kMaxStages, room / a.stage_bytes));
  if (a.stages < 2) return std::nullopt;
  a.chunks_ahead = std::min(a.stages - 1, a.chunks / 2);
  return a;
}

int64_t shared_bytes(const Arguments& args) {
  return int64_t{args.stages} * args.stage_bytes + kBarrierBytes + 128;
}

}  // namespace haloconv::phase_pairs
