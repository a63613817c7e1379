#include "conv2d/families/channels_last/windows.h"

#include <algorithm>
#include <cstdlib>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// A window's rows or columns beyond the block's, and the offset of the first tap and the next.
struct Halo {
  int32_t size, first_source, first_offset;
};

Halo halo_of(const Axis& axis, const AxisPhase& phase) {
  const int32_t last = phase.first_shift + (phase.taps - 1) * axis.shift_step;
  const int32_t least = std::min(phase.first_shift, last);
  return {.size = std::max(phase.first_shift, last) - least,
          .first_source = phase.origin + least,
          .first_offset = phase.first_shift - least};
}

// Matrix rows of a block that are results, for blocks that cover a plane.
double used(const BlockShape& block, int64_t height, int64_t width) {
  return static_cast<double>(height * width) /
         (ceil_div(height, block.rows) * ceil_div(width, block.columns) * kBlockPixels);
}

// The block that wastes least; of equals the one with the smallest window.
BlockShape choose_block(int64_t height, int64_t width, int32_t halo_h, int32_t halo_w) {
  BlockShape best{8, 8};
  double best_cost = 1e30;
  const auto consider = [&](const BlockShape& block) {
    const double window = (block.rows + halo_h) * (block.columns + halo_w);
    const double cost = (1 + window / 64 * 0.02) / used(block, height, width);
    if (cost < best_cost) best = block, best_cost = cost;
  };
  for (int32_t rows = 1; rows <= 8; ++rows) consider({rows, 8});
  for (int32_t columns = 1; columns <= std::min<int64_t>(width, 64); ++columns) {
    if (columns == 8) continue;
    // The last matrix row is (rows - 1) * pitch + columns - 1.
    const int32_t rows = (64 - columns) / (columns + halo_w) + 1;
    consider({static_cast<int32_t>(std::min<int64_t>(rows, height)), columns});
  }
  return best;
}

}  // namespace

std::optional<WindowLaunch> make_window_launch(const Conv2dProblem& problem, Direction direction,
                                               const Tile& tile, int multiprocessors) {
  if (problem.stride_h != 1 || problem.stride_w != 1) return std::nullopt;
  const Gather gather = make_gather(problem, direction);
  const Phase phase = make_phases(problem, direction).front();
  const int32_t pixel_bytes = tile.row_bytes();
  WindowLaunch launch;
  WindowArguments& args = launch.args;
  const Halo h = halo_of(gather.axis_h, phase.h), w = halo_of(gather.axis_w, phase.w);
  int64_t images = problem.n;
  args.results.channels = gather.rows;
  args.destination_n = gather.destination.n;
  args.destination_h = gather.destination.h;
  args.destination_w = gather.destination.w;
  args.height = phase.h.pixels;
  args.width = phase.w.pixels;
  args.first_h = h.first_source;
  args.first_w = w.first_source;
  args.taps_h = phase.h.taps;
  args.taps_w = phase.w.taps;
  args.chunks = static_cast<int32_t>(ceil_div(gather.channels, tile.depth));
  const auto dense = [](const Strides& s, int64_t height, int64_t width) {
    return s.h == s.w * width && s.n == s.h * height;
  };
  const int32_t tile_blocks = tile.pixels / kBlockPixels;
  BlockShape block;
  args.box_blocks = 1;
  launch.flat = problem.r * problem.s == 1 && args.first_h == 0 && args.first_w == 0 &&
                args.height == gather.source_h && args.width == gather.source_w &&
                dense(gather.source, args.height, args.width) &&
                dense(gather.destination, args.height, args.width) &&
                images * args.height * args.width < INT32_MAX;
  if (launch.flat) {
    args.width = static_cast<int32_t>(images * args.height * args.width);
    args.height = 1;
    images = 1;
    block = {1, kBlockPixels};
    args.box_blocks = tile_blocks;
  } else {
    block = choose_block(args.height, args.width, h.size, w.size);
  }
  const int32_t pitch = block.columns + w.size;
  args.block_rows = block.rows;
  args.block_columns = block.columns;
  args.block_pitch = FastDiv(block.columns == 8 ? 8 : pitch);
  args.group_bytes = (block.columns == 8 ? pitch : 8) * pixel_bytes;
  args.row_blocks = FastDiv(ceil_div(args.height, block.rows));
  args.column_blocks = FastDiv(ceil_div(args.width, block.columns));
  args.blocks = static_cast<int32_t>(images * args.row_blocks.divisor * args.column_blocks.divisor);
  args.first_tap_bytes = (h.first_offset * pitch + w.first_offset) * pixel_bytes;
  args.tap_row_bytes = gather.axis_h.shift_step * pitch * pixel_bytes;
  args.tap_column_bytes = gather.axis_w.shift_step * pixel_bytes;

  launch.box[0] = tile.depth;
  launch.box[1] = launch.flat ? tile.pixels : pitch;
  launch.box[2] = block.rows + h.size;
  launch.box[3] = 1;
  if (launch.box[1] > 256 || launch.box[2] > 256) return std::nullopt;
  args.boxes = tile_blocks / args.box_blocks;
  args.box_bytes = launch.box[1] * launch.box[2] * pixel_bytes;
  args.box_pitch = static_cast<int32_t>(round_up(args.box_bytes, 1024));

  const int64_t channel_tiles = ceil_div(gather.rows, tile.channels);
  args.channel_tiles = FastDiv(channel_tiles);
  args.tiles = static_cast<int32_t>(ceil_div(args.blocks, tile_blocks) * channel_tiles);

  // Matrix rows that are no results may read so many bytes beyond the last window.
  const int32_t beyond =
      std::max(0, args.box_blocks * kBlockPixels * pixel_bytes - kBlockPixels * pixel_bytes +
                      (h.size * pitch + w.size) * pixel_bytes + 7 * args.group_bytes +
                      8 * pixel_bytes - args.box_bytes);
  const int32_t room = static_cast<int32_t>(stage_room(tile, args.tiles, multiprocessors)) - beyond;
  const int32_t window_bytes = args.boxes * args.box_pitch;
  const int32_t filter_bytes = tile.channels * pixel_bytes;
  const int32_t taps = args.taps_h * args.taps_w, units = args.chunks * taps;
  const auto filter_stages = [&](int32_t windows) {
    return std::min({(room - windows * window_bytes) / filter_bytes, units, kMaxFilterStages});
  };
  // A filter that fits beside two windows stays; else both rings reach as far ahead.
  args.resident = channel_tiles == 1 && filter_stages(2) == units;
  int32_t windows = 1;
  while (windows < kMaxWindowStages &&
         (args.resident ? filter_stages(windows + 1) == units
                        : filter_stages(windows + 1) >= std::min(units, windows * taps + 1) ||
                              (windows == 1 && filter_stages(2) >= 3))) {
    ++windows;
  }
  // A window is free once a tap of the next one was multiplied, so that a tile of several windows
  // needs two.
  if (windows < std::min(args.chunks, 2)) return std::nullopt;
  args.window_stages = windows;
  args.filter_stages = filter_stages(windows);
  if (args.filter_stages < std::min(units, 2)) return std::nullopt;
  args.is_flat = launch.flat;
  launch.copies_residual =
      takes_boxes(tile, direction == Direction::kDgrad) && windows > 1 &&
      (launch.flat || (block.columns == 8 && args.box_pitch >= kBlockPixels * pixel_bytes));
  launch.shared_bytes =
      kAlignment + windows * window_bytes + args.filter_stages * filter_bytes + beyond;
  return launch;
}

}  // namespace haloconv::sm90::channels_last
