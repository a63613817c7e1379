// Depthwise convolutions of tensors with rows innermost: planes, each of one image's channel, and
// windows of the source that tiles of them meet. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/depthwise_axes.h"

namespace haloconv {

// Outputs of one thread: so many neighbours of a row, in so many rows. A thread has each row of its
// window once in registers.
inline constexpr int kDepthwiseColumns = 4;
inline constexpr int kDepthwiseRows = 4;
inline constexpr int kDepthwiseThreads = 256;  // of a block, at most
inline constexpr int kDepthwiseStages = 2;     // of wgrad: one is brought while one is summed
inline constexpr int kDepthwiseLanes = 8;      // that load a row of a window together

// fprop and dgrad.
struct Depthwise : DepthwiseAxes {
  int32_t planes;       // in all: images * destination channels; in wgrad: images
  int32_t tile_planes;  // of a block
  int32_t threads;      // of a block
  // Groups of kDepthwiseLanes threads that load a window's rows in turns, and windows at a time.
  int32_t row_loaders, plane_loaders;
  // Elements in shared memory: from a row of a window to the next, from a plane's to the next; of a
  // row of the filter, and where the filters begin.
  int32_t pitch, plane_pitch, filter_pitch, filters_at;
  int64_t shared_bytes, blocks;
  FastDiv taps_h, row_loaders_div;
  FastDiv threads_w, threads_h, tiles_w, tiles_h;
};

// Nothing where the kernel does not take the problem: what make_depthwise_axes() does not take, or
// where rows are not innermost.
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
