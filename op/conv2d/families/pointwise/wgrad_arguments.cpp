#include "conv2d/families/pointwise/wgrad_arguments.h"

#include <limits>

#include "conv2d/families/pointwise/one_tap.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::pointwise {

std::optional<WgradArguments> make_wgrad_arguments(const Conv2dProblem& p, const WgradPlan& plan) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (!one_tap_declines(p, Direction::kWgrad).empty()) return std::nullopt;
  const int64_t halves = size_of(p.type) / 2;
  const int64_t row_tiles = ceil_div(p.group_k(), plan.tile.rows);
  const int64_t column_tiles = ceil_div(p.group_c(), plan.tile.columns);
  const int64_t chunks = ceil_div(p.n * p.w * halves, kDepth);
  // A tile's last channels, and a chunk's last pixel, are counted though they may not exist.
  if (row_tiles * plan.tile.rows > kMost || column_tiles * plan.tile.columns > kMost ||
      chunks * kDepth > kMost || p.groups > kMost) {
    return std::nullopt;
  }
  WgradArguments args{};
  args.groups = static_cast<int32_t>(p.groups);
  args.rows = static_cast<int32_t>(p.group_k());
  args.columns = static_cast<int32_t>(p.group_c());
  args.row_tiles = static_cast<int32_t>(row_tiles);
  args.column_tiles = static_cast<int32_t>(column_tiles);
  args.padded_rows = args.row_tiles * plan.tile.rows;
  args.padded_columns = args.column_tiles * plan.tile.columns;
  args.pixels = static_cast<int32_t>(p.n * p.w * halves);
  args.image_pixels = FastDiv(p.w * halves);
  args.chunks = static_cast<int32_t>(chunks);
  args.split_chunks = static_cast<int32_t>(ceil_div(chunks, plan.splits));
  args.splits = static_cast<int32_t>(ceil_div(chunks, args.split_chunks));
  args.output_n = p.output.n * halves;
  args.output_k = p.output.c * halves;
  args.input_n = p.input.n * halves;
  args.input_c = p.input.c * halves;
  args.pixel_unit = unit_of(p.w * halves, args.output_n, args.output_k, args.input_n, args.input_c);
  // In floating point: the product of four 32-bit counts may pass 64 bits.
  if (static_cast<double>(args.splits) * args.groups * row_tiles * column_tiles > kMost) {
    return std::nullopt;
  }
  return args;
}

int64_t workspace_bytes(const WgradArguments& args, bool with_bias) {
  return args.splits * (args.partial_floats() + (with_bias ? args.bias_partial_floats() : 0)) * 4;
}

}  // namespace haloconv::pointwise
