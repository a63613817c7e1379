#include "conv2d/families/pointwise/arguments.h"

#include <limits>

#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

std::optional<Arguments> make_arguments(const Conv2dProblem& p, const Plan& plan) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const bool channels_are_neighbours = p.filter.c == 1 || p.group_c() == 1;
  if (!one_tap_declines(p, plan.direction).empty() || !channels_are_neighbours) return std::nullopt;

  const bool fprop = plan.direction == Direction::kFprop;
  const Strides& source = fprop ? p.input : p.output;
  const Strides& destination = fprop ? p.output : p.input;
  const int64_t rows = fprop ? p.group_k() : p.group_c();
  const int64_t depth = fprop ? p.group_c() : p.group_k();
  const int64_t row_tiles = ceil_div(rows, plan.tile.rows);
  const int64_t pixel_tiles = ceil_div(p.n * p.w, plan.tile.columns);
  // A tile's last pixel, and a chunk's last channel, are counted though they may not exist.
  if (pixel_tiles * plan.tile.columns > kMost || row_tiles * plan.tile.rows > kMost ||
      depth > kMost - kDepth || p.groups > kMost) {
    return std::nullopt;
  }
  Arguments args{};
  args.groups = static_cast<int32_t>(p.groups);
  args.rows = static_cast<int32_t>(rows);
  args.depth = static_cast<int32_t>(depth);
  args.row_tiles = static_cast<int32_t>(row_tiles);
  args.pixels = static_cast<int32_t>(p.n * p.w);
  args.pixel_tiles = static_cast<int32_t>(pixel_tiles);
  args.image_pixels = FastDiv(p.w);
  args.row_tiles_div = FastDiv(row_tiles);
  args.groups_div = FastDiv(p.groups);
  args.source_n = source.n;
  args.source_c = source.c;
  args.destination_n = destination.n;
  args.destination_c = destination.c;
  args.filter_k = p.filter.n;
  args.filter_unit = unit_of(p.filter.n, p.group_c());
  if (const std::optional<Spread>& spread = plan.spread) {
    args.filter_rows = FastDiv(spread->filter_rows);
    args.source_columns = FastDiv(spread->source_columns);
    args.destination_h = spread->destination_h;
    args.pixel_unit = unit_of(p.w, source.n, source.c);
    args.result_unit =
        unit_of(2 * spread->source_columns, destination.n, destination.c, spread->destination_h);
  } else {
    args.pixel_unit = unit_of(p.w, source.n, source.c, destination.n, destination.c);
    args.result_unit = args.pixel_unit;
  }
  // In floating point: the product of three 32-bit counts may pass 64 bits. Blocks step over the
  // last tile by as many as there are.
  constexpr double kMostTiles = kMost - (1 << 20);
  if (static_cast<double>(p.groups) * row_tiles * pixel_tiles > kMostTiles) return std::nullopt;
  args.tiles = static_cast<int32_t>(p.groups * row_tiles * pixel_tiles);
  return args;
}

}  // namespace haloconv::pointwise
