// How the depthwise kernels see convolutions of groups with one channel to sum over: planes, each
// of one image's channel, and windows of the source that tiles of them meet. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv {

// Outputs of one thread: so many neighbours of a row, in so many rows. A thread has each row of its
// window once in registers.
inline constexpr int kDepthwiseColumns = 4;
inline constexpr int kDepthwiseRows = 4;
inline constexpr int kDepthwiseThreads = 256;  // of a block, at most
inline constexpr int kDepthwiseStages = 2;     // of wgrad: one is brought while one is summed
inline constexpr int kDepthwiseLanes = 8;      // that load a row of a window together

// One axis: the tap that lies t after the first meets source coordinate output*step + origin + t.
struct DepthwiseAxis {
  int32_t outputs, source_size;
  int32_t step, origin, taps;
  int32_t threads;      // of a block's tile along this axis
  int32_t tiles;        // along this axis
  int32_t window;       // source coordinates of a tile
  int64_t filter_step;  // elements from a tap to the next
};

// fprop and dgrad.
struct Depthwise {
  DepthwiseAxis h, w;
  int32_t planes;       // in all: images * destination channels; in wgrad: images
  int32_t tile_planes;  // of a block
  int32_t threads;      // of a block
  // Groups of kDepthwiseLanes threads that load a window's rows in turns, and windows at a time.
  int32_t row_loaders, plane_loaders;
  // Elements in shared memory: from a row of a window to the next, from a plane's to the next; of a
  // row of the filter, and where the filters begin.
  int32_t pitch, plane_pitch, filter_pitch, filters_at;
  int64_t shared_bytes, blocks;
  int64_t filter_first;    // of a destination channel, the first tap's element
  FastDiv channels, rows;  // destination channels of an image, of a group
  FastDiv taps_h, row_loaders_div;
  FastDiv threads_w, threads_h, tiles_w, tiles_h;
};

// Nothing where the kernel does not take the problem: more than one channel to sum over, dilation,
// strides other than 1 and 2 along rows, or those of dgrad, filters that are not 3, 5 or 7 wide or
// are higher than 16, sums in float64.
std::optional<Depthwise> make_depthwise(const Conv2dProblem& problem, Direction direction);

// wgrad: a block sums a channel's weights over tiles of its planes, one tile after the other.
struct DepthwiseWgrad {
  Depthwise d;  // fprop's, of one channel
  // Elements in shared memory: of the output gradient's tile, which lies behind the windows; of
  // both.
  int32_t grad_pitch, grad_plane_pitch, grads_at, stage;
  int32_t tiles;  // of a channel
};

// Nothing where the kernel does not take the problem: what make_depthwise() does not take of fprop,
// filters that are not square, strides that differ.
std::optional<DepthwiseWgrad> make_depthwise_wgrad(const Conv2dProblem& problem);

}  // namespace haloconv
