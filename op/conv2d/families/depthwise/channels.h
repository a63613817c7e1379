// Depthwise convolutions of tensors with channels innermost: lanes lie along channels, and a warp
// has a span of neighbouring columns, of which it goes down the rows of a tile. Pure host
// arithmetic.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/depthwise/axes.h"

namespace haloconv::depthwise {

inline constexpr int kSpanColumns = 4;    // neighbouring outputs of a row, a thread's
inline constexpr int kSpanLanes = 32;     // channels of a block
inline constexpr int kSpanThreads = 256;  // of a block, at most
// Elements of 2 bytes that a thread has on its way at a time, where they are brought one by one:
// for more the kernels of other filters lack registers, of which blocks would be fewer.
HALOCONV_HOST_DEVICE constexpr int span_elements_at_once(int taps) { return taps == 4 ? 4 : 1; }
// Outputs' rows of which the source is in shared memory: one is computed while others come.
inline constexpr int kSpanStages = 4;

// In wgrad the axes are fprop's: outputs are the output gradient's.
struct DepthwiseNhwc : DepthwiseAxes {  // w.threads: spans of a block; h.threads: 1
  int32_t tile_rows;                    // of outputs
  int32_t tiles;                        // of all images, for some channels
  // Elements in shared memory: of the source's rows in a stage, of a stage; and those of them that
  // are brought at once.
  int32_t grads_at, stage, at_once;
  FastDiv channel_tiles, tiles_w, tiles_h;

  int32_t threads() const { return w.threads * kSpanLanes; }
  // fprop and dgrad have one for each tile of pixels and channels.
  int64_t blocks() const { return int64_t{tiles} * channel_tiles.divisor; }
};

// Nothing where the kernels do not take the problem: what make_depthwise_axes() does not take,
// several outputs of a channel, filters that are not square, strides that differ, those of dgrad,
// or where channels are not innermost.
std::optional<DepthwiseNhwc> make_depthwise_nhwc(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv::depthwise
