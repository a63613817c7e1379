#include "conv2d/families/channels_last/windows.h"

#include <algorithm>
#include <cstdlib>

#include "conv2d/families/channels_last/laid_filter.h"
#include "conv2d/families/channels_last/phases.h"
#include "conv2d/families/channels_last/prefetch.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::channels_last {

namespace {

// A window's rows or columns beyond the block's, and the offset of the first tap and the next.
struct Halo {
  int32_t size, first_source, first_offset, shift_step;
};

Halo halo_of(const Axis& axis, const AxisPhase& phase) {
  const int32_t last = phase.first_shift + (phase.taps - 1) * axis.shift_step;
  const int32_t least = std::min(phase.first_shift, last);
  return {.size = std::max(phase.first_shift, last) - least,
          .first_source = phase.origin + least,
          .first_offset = phase.first_shift - least,
          .shift_step = axis.shift_step};
}

// How the destination is cut into blocks, and how many of them share a box: one below another, and
// side by side.
struct Cut {
  int32_t rows = 8, columns = 8;  // of a block
  int32_t log2_box_rows = 0, log2_box_columns = 0;
  double cost = 1e30;  // of a result

  int32_t box_blocks() const { return 1 << (log2_box_rows + log2_box_columns); }
  int32_t box_rows() const { return rows << log2_box_rows; }
  int32_t box_columns() const { return columns << log2_box_columns; }
};

// What a cut wastes of its matrix rows counts, and of equals the window's size.
double cost_of(const Cut& cut, int64_t height, int64_t width, int32_t halo_h, int32_t halo_w) {
  const double blocks =
      cut.box_blocks() * ceil_div(height, cut.box_rows()) * ceil_div(width, cut.box_columns());
  const double window =
      (cut.box_rows() + halo_h) * (cut.box_columns() + halo_w) / double(cut.box_blocks());
  return (1 + window / kBlockPixels * 0.02) * blocks * kBlockPixels /
         static_cast<double>(height * width);
}

// The best cut whose blocks have windows of their own, and the best whose tile's blocks share one.
struct Cuts {
  Cut own, shared;
};

Cuts make_cuts(int64_t height, int64_t width, int32_t halo_h, int32_t halo_w,
               int32_t log2_tile_blocks) {
  Cuts cuts;
  const auto consider = [&](Cut cut, Cut& best) {
    cut.cost = cost_of(cut, height, width, halo_h, halo_w);
    if (cut.cost < best.cost) best = cut;
  };
  for (int32_t rows = 1; rows <= 8; ++rows) {
    consider({rows, 8}, cuts.own);
    for (int32_t below = 0; below <= log2_tile_blocks; ++below) {
      consider({rows, 8, below, log2_tile_blocks - below}, cuts.shared);
    }
  }
  for (int32_t columns = 1; columns <= std::min<int64_t>(width, 64); ++columns) {
    if (columns == 8) continue;
    // The last matrix row is (rows - 1) * pitch + columns - 1.
    const int32_t rows = (64 - columns) / (columns + halo_w) + 1;
    consider({static_cast<int32_t>(std::min<int64_t>(rows, height)), columns}, cuts.own);
  }
  return cuts;
}

// None where the windows do not fit.
std::optional<WindowLaunch> cut_launch(WindowLaunch launch, const Cut& cut, const Tile& tile,
                                       int64_t images, const Halo& h, const Halo& w,
                                       bool takes_residual, int multiprocessors) {
  WindowArguments& args = launch.args;
  const int32_t pixel_bytes = tile.row_bytes(), tile_blocks = tile.pixels / kBlockPixels;
  const int32_t pitch = cut.box_columns() + w.size;
  args.block_rows = cut.rows;
  args.block_columns = cut.columns;
  args.block_pitch = FastDiv(cut.columns == 8 ? 8 : pitch);
  args.group_bytes = (cut.columns == 8 ? pitch : 8) * pixel_bytes;
  args.row_boxes = FastDiv(ceil_div(args.height, cut.box_rows()));
  args.column_boxes = FastDiv(ceil_div(args.width, cut.box_columns()));
  args.blocks = static_cast<int32_t>(images * args.row_boxes.divisor * args.column_boxes.divisor *
                                     cut.box_blocks());
  args.first_tap_bytes = (h.first_offset * pitch + w.first_offset) * pixel_bytes;
  args.tap_row_bytes = h.shift_step * pitch * pixel_bytes;
  args.tap_column_bytes = w.shift_step * pixel_bytes;
  args.log2_box_blocks = cut.log2_box_rows + cut.log2_box_columns;
  args.box_rows = cut.box_rows();
  args.box_columns = cut.box_columns();

  launch.box[0] = tile.depth;
  launch.box[1] = pitch;
  launch.box[2] = cut.box_rows() + h.size;
  launch.box[3] = 1;
  if (launch.box[1] > 256 || launch.box[2] > 256) return std::nullopt;
  args.boxes = tile_blocks / cut.box_blocks();
  args.box_bytes = launch.box[1] * launch.box[2] * pixel_bytes;
  args.box_pitch = static_cast<int32_t>(round_up(args.box_bytes, 1024));
  for (int32_t block = 0; block < tile_blocks; ++block) {
    const int32_t in_box = block % cut.box_blocks();
    args.row_in_box[block] = (in_box >> cut.log2_box_columns) * cut.rows;
    args.column_in_box[block] = in_box % (1 << cut.log2_box_columns) * cut.columns;
    args.windows[block] =
        block / cut.box_blocks() * args.box_pitch +
        (args.row_in_box[block] * pitch + args.column_in_box[block]) * pixel_bytes;
  }

  const int64_t channel_tiles = ceil_div(args.results.channels, tile.channels);
  args.channel_tiles = FastDiv(channel_tiles);
  args.tiles = static_cast<int32_t>(ceil_div(args.blocks, tile_blocks) * channel_tiles);

  // Matrix rows that are no results may read so many bytes beyond the last window.
  const int32_t last_block = args.windows[cut.box_blocks() - 1];
  const int32_t beyond = std::max(0, last_block + (h.size * pitch + w.size) * pixel_bytes +
                                         7 * args.group_bytes + 8 * pixel_bytes - args.box_bytes);
  const int32_t room = static_cast<int32_t>(stage_room(tile, args.tiles, multiprocessors)) - beyond;
  const int32_t window_bytes = args.boxes * args.box_pitch;
  const int32_t filter_bytes = tile.channels * pixel_bytes;
  const int32_t taps = args.taps_h * args.taps_w, units = args.chunks * taps;
  const auto filter_stages = [&](int32_t windows) {
    return std::min({(room - windows * window_bytes) / filter_bytes, units, kMaxFilterStages});
  };
  // A filter that fits beside two windows stays in shared memory; else both rings reach as far
  // ahead. Where there are several tiles of channels, the part that one of them needs stays if they
  // are wide: narrower ones read the source too often to gain.
  const bool may_stay =
      channel_tiles == 1 || (tile.channels == 256 && channel_tiles <= multiprocessors);
  args.resident = may_stay && filter_stages(2) == units;
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
  launch.copies_residual = takes_residual && windows > 1 &&
                           (launch.flat || (cut.columns == 8 && cut.box_blocks() == 1 &&
                                            args.box_pitch >= kBlockPixels * pixel_bytes));
  launch.shared_bytes =
      kAlignment + windows * window_bytes + args.filter_stages * filter_bytes + beyond;
  return launch;
}

}  // namespace

std::optional<WindowLaunch> make_window_launch(const Conv2dProblem& problem, Direction direction,
                                               const OrderedPhases& ordered, const Tile& tile,
                                               int multiprocessors) {
  if (problem.stride_h != 1 || problem.stride_w != 1) return std::nullopt;
  const Gather& gather = ordered.gather;
  const Phase& phase = ordered.phases.front();
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
  args.filter_step = problem.filter.n;
  args.source_channels = static_cast<int32_t>(gather.channels);
  const auto dense = [](const Strides& s, int64_t height, int64_t width) {
    return s.h == s.w * width && s.n == s.h * height;
  };
  launch.flat = problem.r * problem.s == 1 && args.first_h == 0 && args.first_w == 0 &&
                args.height == gather.source_h && args.width == gather.source_w &&
                dense(gather.source, args.height, args.width) &&
                dense(gather.destination, args.height, args.width) &&
                images * args.height * args.width < INT32_MAX;
  const int32_t log2_tile_blocks = tile.pixels == 4 * kBlockPixels ? 2 : 1;
  // What is fused is computed by the same tiles that do not alternate.
  Tile fused = tile;
  fused.alternates = false;
  const bool takes_residual = takes_boxes(fused, direction == Direction::kDgrad);
  const auto launch_of = [&](const Cut& cut) {
    std::optional<WindowLaunch> made =
        cut_launch(launch, cut, tile, images, h, w, takes_residual, multiprocessors);
    if (!made) return made;
    WindowArguments& of = made->args;
    of.prefetched_windows =
        prefetched_stages(problem, direction, of.channel_tiles.divisor,
                          of.tiles > multiprocessors * blocks_of(tile), of.window_stages);
    const int64_t filter_bytes = int64_t{of.filter_stages} * tile.channels * tile.row_bytes();
    of.lays_filter = of.resident && of.channel_tiles.divisor == 1 &&
                     filter_bytes <= kMostLaidBytes && gains_by_laying(problem);
    return made;
  };
  if (launch.flat) {
    args.width = static_cast<int32_t>(images * args.height * args.width);
    args.height = 1;
    images = 1;
    return launch_of({1, kBlockPixels, 0, log2_tile_blocks});
  }
  const Cuts cuts = make_cuts(args.height, args.width, h.size, w.size, log2_tile_blocks);
  std::optional<WindowLaunch> own = launch_of(cuts.own);
  // Shared windows are smaller, but where two of their own fit, these are as fast or faster.
  if (own && own->args.window_stages > 1) return own;
  const std::optional<WindowLaunch> shared = launch_of(cuts.shared);
  return shared ? shared : own;
}

}  // namespace haloconv::sm90::channels_last
