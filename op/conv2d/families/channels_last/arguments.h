// fprop and dgrad of tensors with channels innermost, of 16-bit types and of float32 in TF32 on
// Hopper, as a product of matrices: destination (pixels x channels) = source (pixels x units) *
// filter (units x channels).
//
// A row of the source's matrix is what a destination pixel meets: for each tap, `channels` numbers
// that lie side by side in memory. The copy engine brings columns of pixels for a tap and some of
// its channels (im2col mode); pixels of a phase are numbered through, (image, row, column), so that
// tiles do not care where a row or an image ends.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/device/channel_results.h"
#include "conv2d/families/channels_last/tile.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"
#include "cuda/pixel_column.h"

namespace haloconv::sm90::channels_last {

// Phases of one launch, each with its own tensor map.
inline constexpr int kMaxPhases = 16;

// A phase of geometry.h as the kernel reads it.
struct TilePhase {
  // Where tile 0 would be among the launch's tiles along pixels. A phase's tiles end where the next
  // one's begin; a part of a phase may come before the others, and then this is negative.
  int32_t first_tile;
  int32_t pixels;              // of all images
  FastDiv plane, columns;      // pixels of an image, and of a row
  int32_t first_h, first_w;    // the source pixel that pixel 0 meets by its least offset
  int32_t taps_h, taps_w;      // 0: its results are sums of nothing
  int32_t tap_h, tap_w;        // the filter's first tap
  int32_t offset_h, offset_w;  // the source offset of the first tap, from first_h and first_w
  int64_t destination;         // elements to pixel 0 of image 0
};

struct Arguments {
  Results results;
  int64_t destination_n, destination_h, destination_w;  // elements between a phase's pixels
  int32_t channels;                                     // of the source
  int32_t step_h, step_w;                               // source pixels between a phase's pixels
  int32_t tap_step_h, tap_step_w;                       // filter taps between a phase's taps
  int32_t offset_step_h, offset_step_w;                 // source pixels between a phase's taps
  int32_t tiles;
  int32_t stages;             // in shared memory
  int32_t prefetched_stages;  // prefetch.h
  FastDiv channel_tiles;
  int32_t phases;
  TilePhase phase[kMaxPhases];
};

// One launch: all but pointers.
struct Launch {
  Arguments args{};
  PixelColumn columns[kMaxPhases];  // of args.phase; a phase without taps has none
  bool fits = true;                 // the copy engine takes all columns
  bool copies_residual = false;     // it takes a residual and results too
  bool copies_results = false;      // it takes those of alternating tiles: copied_results.cuh
};

// For up to kMaxPhases phases each.
std::vector<Launch> make_launches(const Conv2dProblem& problem, Direction direction,
                                  const Tile& tile, int multiprocessors);

}  // namespace haloconv::sm90::channels_last
