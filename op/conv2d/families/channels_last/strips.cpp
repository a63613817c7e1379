#include "conv2d/families/channels_last/strips.h"

#include <algorithm>
#include <cstdlib>

#include "conv2d/families/channels_last/phases.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

constexpr int32_t kGroupPixels = 64;  // matrix rows of a warpgroup
constexpr int32_t kMostBoxed = 256;   // by the copy engine, along a dimension

// How strips are cut: two warpgroups' columns side by side, or images one after the other.
struct StripCut {
  int32_t strip_images, strip_columns;
  int32_t group_images, group_columns;
  int32_t row_images, image_columns;

  int64_t strips(int64_t images, int64_t width) const {
    return ceil_div(images, strip_images) * ceil_div(width, strip_columns);
  }
};

StripCut cut_strips(int64_t images, int64_t width, int32_t halo) {
  const StripCut beside{1, kMathGroups * kGroupPixels, 0, kGroupPixels, 1, kGroupPixels};
  const auto columns = static_cast<int32_t>(std::min<int64_t>(width, kGroupPixels));
  const int32_t of_group = (kGroupPixels - columns) / (columns + halo) + 1;
  const StripCut below{kMathGroups * of_group, columns, of_group, 0, of_group, columns};
  return below.strips(images, width) < beside.strips(images, width) ? below : beside;
}

// A problem may take some tiles, each of which reads all of the source. Of the narrowest fewer than
// half of the channels may be used.
bool suits(const StripTile& of, int32_t destination_channels) {
  constexpr int32_t kMostTiles = 4;
  const int32_t channels = of.tile.channels;
  return destination_channels <= kMostTiles * channels &&
         (channels == 16 || destination_channels >= channels / 2);
}

}  // namespace

std::optional<StripLaunch> make_strip_launch(const Conv2dProblem& problem,
                                             const OrderedPhases& ordered, const StripTile& of,
                                             int multiprocessors) {
  if (problem.stride_h != 1 || problem.stride_w != 1) return std::nullopt;
  const Gather& gather = ordered.gather;
  const Phase& phase = ordered.phases.front();
  const Tile& tile = of.tile;
  const int32_t taps_h = phase.h.taps, taps_w = phase.w.taps;
  if (taps_h > of.rows || taps_h < of.rows - 1) return std::nullopt;
  if (!suits(of, gather.rows)) return std::nullopt;
  const int32_t step_h = std::abs(gather.axis_h.shift_step);
  const int32_t step_w = std::abs(gather.axis_w.shift_step);
  const int32_t halo = (taps_w - 1) * step_w, pixel_bytes = tile.row_bytes();
  const auto least = [](const Axis& axis, const AxisPhase& of_phase) {
    return of_phase.origin + std::min(of_phase.first_shift,
                                      of_phase.first_shift + (of_phase.taps - 1) * axis.shift_step);
  };

  StripLaunch launch{};
  launch.sum_rows = of.rows;
  StripArguments& args = launch.args;
  args.results.channels = gather.rows;
  args.destination_n = gather.destination.n;
  args.destination_h = gather.destination.h;
  args.destination_w = gather.destination.w;
  args.images = static_cast<int32_t>(problem.n);
  args.height = phase.h.pixels;
  args.width = phase.w.pixels;
  args.first_h = least(gather.axis_h, phase.h);
  args.first_w = least(gather.axis_w, phase.w);
  args.chunks = static_cast<int32_t>(ceil_div(gather.channels, tile.depth));
  args.taps_h = taps_h;
  args.taps_w = taps_w;
  args.is_mirrored = gather.axis_h.shift_step < 0;

  const StripCut cut = cut_strips(args.images, args.width, halo);
  const int32_t pitch = cut.strip_columns + halo;
  args.strip_images = cut.strip_images;
  args.strip_columns = cut.strip_columns;
  args.group_images = cut.group_images;
  args.group_columns = cut.group_columns;
  args.image_pitch = FastDiv(pitch);
  args.row_images = cut.row_images;
  args.image_columns = cut.image_columns;
  args.column_strips = FastDiv(ceil_div(args.width, cut.strip_columns));
  args.row_step = FastDiv(step_h);
  args.strip_rows = FastDiv(ceil_div(args.height, step_h));
  const int64_t rows = cut.strips(args.images, args.width) * step_h * args.strip_rows.divisor;
  if (2 * rows > INT32_MAX || pitch > kMostBoxed) return std::nullopt;
  args.rows = static_cast<int32_t>(rows);
  const int64_t channel_tiles = ceil_div(gather.rows, tile.channels);
  const int64_t of_a_tile = std::max<int64_t>(1, multiprocessors / channel_tiles);
  args.channel_tiles = FastDiv(channel_tiles);
  args.block_rows = static_cast<int32_t>(ceil_div(rows, of_a_tile));
  launch.blocks = static_cast<int32_t>(ceil_div(rows, args.block_rows) * channel_tiles);

  launch.box[0] = tile.depth;
  launch.box[1] = pitch;
  launch.box[2] = 1;
  launch.box[3] = cut.strip_images;
  args.tap_bytes = step_w * pixel_bytes;
  args.group_bytes = (cut.group_images * pitch + cut.group_columns) * pixel_bytes;
  args.window_bytes = pitch * cut.strip_images * pixel_bytes;
  args.window_pitch = static_cast<int32_t>(round_up(args.window_bytes, kAlignment));
  // Matrix rows that are no results may read so many bytes beyond the last window.
  const int32_t beyond =
      std::max(0, args.group_bytes + (kGroupPixels + halo) * pixel_bytes - args.window_bytes);
  const int64_t filter_bytes = int64_t{args.chunks} * taps_h * taps_w * tile.channels * pixel_bytes;
  const int64_t room = stage_room(tile, launch.blocks, multiprocessors) - beyond - filter_bytes;
  if (room < 2 * args.window_pitch) return std::nullopt;
  args.filter_bytes = static_cast<int32_t>(filter_bytes);
  args.stages = static_cast<int32_t>(std::min<int64_t>(room / args.window_pitch, kMaxStripStages));
  launch.shared_bytes = kAlignment + args.filter_bytes + args.stages * args.window_pitch + beyond;
  return launch;
}

}  // namespace haloconv::sm90::channels_last
