// What the kernels of the unpacked family are told.
//
// A forward pass is a matrix product: of pixels, and of filters that are (k, depth) as they lie,
// for depth = (c, r, s). A block computes a tile of pixels and output channels. For some input
// channels it brings the window of the input that the tile's pixels meet; an element of the depth
// is then a fixed distance from each pixel's place in the window, which a table has.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::unpacked {

inline constexpr int kMathGroups = 2;

// A stage of the filter: 128 bytes of each output channel's depth, which are four steps of a matrix
// instruction each.
inline constexpr int kStageDepth = 32;
inline constexpr int kStepDepth = 8;
inline constexpr int kStageSteps = kStageDepth / kStepDepth;

struct Tile {
  int pixels = 128;    // or 256
  int channels = 128;  // of the output

  constexpr bool operator==(const Tile&) const = default;
};
inline constexpr Tile kTiles[] = {{128, 64}, {128, 128}, {128, 256}, {256, 64}, {256, 128}};

HALOCONV_HOST_DEVICE constexpr int filter_stage_bytes(const Tile& tile) {
  return tile.channels * kStageDepth * 4;
}
// Blocks that share a multiprocessor: one's results are written while the other multiplies.
HALOCONV_HOST_DEVICE constexpr int blocks_of(const Tile& tile) {
  return tile.pixels * tile.channels <= 128 * 64 ? 2 : 1;
}
// Two warpgroups multiply; one more warp brings what they multiply. Where a block has a
// multiprocessor for itself that warp has a group, whose registers the others take.
HALOCONV_HOST_DEVICE constexpr int threads_of(const Tile& tile) {
  return kMathGroups * 128 + (blocks_of(tile) == 1 ? 128 : 32);
}

inline constexpr int kMaxStages = 12;        // of a ring
inline constexpr int kMostWindowSteps = 64;  // that the table has
inline constexpr int kMostShared = 222 * 1024;
inline constexpr int kAlignment = 1024;  // of filter stages

// Bytes are of shared memory, other distances in elements.
struct Arguments {
  float* to;  // the output, or the partial sums of its splits
  const float* bias;
  // Tiles: of output channels, then of columns, rows and images.
  int32_t tiles;
  FastDiv channel_tiles, column_tiles, row_tiles;
  int32_t log_columns, log_rows;            // of a tile's pixels in an image
  int32_t images, rows, columns, channels;  // of the output
  // Of 16 pixels, the first 8 threads have some so many apart, and another one so much further
  // each. These are neighbours where results are written in pairs.
  int32_t lane_pixels, half_pixels;
  bool writes_pairs;
  // From a tile's first pixel to its window: by pixel, and to the window's first.
  int32_t step_h, step_w, first_h, first_w;
  // From the beginning of a window to a pixel's place in it.
  int32_t lead_bytes, image_bytes, row_bytes, column_bytes;
  // From there to an element of the depth.
  FastDiv taps, taps_w;
  int32_t channel_bytes, tap_row_bytes, tap_column_bytes;
  int32_t window_steps;  // of the depth, for which a window has the input channels
  int32_t window_channels;
  int32_t window_bytes;
  int32_t window_stages, filter_stages;
  // Blocks share a tile's depth: each has so many stages of all.
  int32_t stages, split_stages;
  int32_t splits;
  FastDiv split_tiles;  // all tiles, as a divisor
  // Of what is written.
  int64_t split_step, image_step, channel_step, row_step;
};

// Where things lie in a block's shared memory: the filter's stages, the windows, and the table.
constexpr int64_t shared_bytes(const Arguments& args, const Tile& tile) {
  return kAlignment + int64_t{args.filter_stages} * filter_stage_bytes(tile) +
         int64_t{args.window_stages} * args.window_bytes + args.window_steps * 4 * 8;
}

// What adds the sums of splits is told: of the output where rows follow each other.
struct SplitSums {
  const float* partial;
  float* to;
  const float* bias;
  int32_t splits;
  FastDiv plane, channels;  // quads of pixels, and output channels
  int64_t quads;            // of the output
  int64_t image_step, channel_step;
};

}  // namespace haloconv::unpacked
