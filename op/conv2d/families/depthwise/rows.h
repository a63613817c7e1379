// Depthwise convolutions of tensors with rows innermost: planes, each of one image's channel, and
// windows of the source that tiles of them meet. Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/depthwise/axes.h"
#include "conv2d/families/depthwise/rows_cells.h"

namespace haloconv::depthwise {

// Outputs of one thread: kDepthwiseColumns neighbours of a row, in so many rows. A thread has each
// row of its window once in registers.
constexpr int depthwise_rows(int64_t element_size) { return element_size == 2 ? 8 : 4; }
inline constexpr int kDepthwiseWgradRows = 4;
inline constexpr int kDepthwiseThreads = 256;  // of a block, at most
inline constexpr int kDepthwiseStages = 2;     // of wgrad: one is brought while one is summed

// fprop and dgrad.
struct Depthwise : DepthwiseAxes {
  int32_t planes;       // in all: images * destination channels; in wgrad: images
  int32_t tile_planes;  // of a block
  int32_t threads;      // of a block
  int32_t thread_rows;  // depthwise_rows(), kDepthwiseWgradRows
  // float32: groups of kDepthwiseLanes threads that load a window's rows in turns, and windows at a
  // time.
  int32_t row_loaders, plane_loaders;
  FastDiv row_loaders_div;
  DepthwiseCells windows;
  // Floats in shared memory: of a row of the filter, and where the filters begin.
  int32_t filter_pitch, filters_at;
  int64_t shared_bytes, blocks;
  FastDiv taps_h, threads_w, threads_h, tiles_w, tiles_h;
};

// Nothing where the kernel does not take the problem: what make_depthwise_axes() does not take, or
// where rows are not innermost.
std::optional<Depthwise> make_depthwise(const Conv2dProblem& problem, Direction direction);

// wgrad: a block sums a channel's weights over tiles of its planes, one tile after the other.
struct DepthwiseWgrad {
  Depthwise d;  // fprop's, of one channel
  DepthwiseCells grads;
  // Elements in shared memory: where the output gradient's tile begins, behind the windows; of
  // both.
  int32_t grads_at, stage;
  int32_t tiles;  // of a channel
};

// Nothing where the kernel does not take the problem: what make_depthwise() does not take of fprop,
// filters that are not square, strides that differ.
std::optional<DepthwiseWgrad> make_depthwise_wgrad(const Conv2dProblem& problem);

}  // namespace haloconv::depthwise
