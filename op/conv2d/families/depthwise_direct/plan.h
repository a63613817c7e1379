// Forward passes of groups of one channel, and input gradients without a stride, on any chip: each
// thread reads what its results meet itself, all at once, where the kernels of `depthwise` bring a
// block's windows to shared memory. That is faster with a stride of 2, where neighbours share
// little, and where channels that fill no whole 16 bytes could only be brought one by one. Pure
// host functions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::depthwise_direct {

inline constexpr int32_t kBlockThreads = 256;  // at most

// Rows innermost, in float32 with a stride of 2: a warp computes so many rows of 32 columns of a
// plane, and its lanes give each other what their windows share. A window has one column before its
// lane's two.
inline constexpr int32_t kWarpRows = 4, kWarpColumns = 32, kRowStride = 2, kPadLeft = 1;
// Channels innermost, which fill no whole 16 bytes: a thread computes a square of one channel, and
// neighbouring threads have neighbouring channels, so many in a block at most.
inline constexpr int32_t kSquareSide = 2, kMostLanes = 64;

// What the kernels are told of a problem, as a forward pass.
struct Arguments {
  int32_t channels, h, w, p, q;  // of the source, and of the result
  int32_t pad_top, pad_left;
  Strides source, result;  // in elements
  // The filter's: to its first element, and between neighbours.
  int64_t filter_first, filter_channel, filter_row, filter_column;
  int64_t tiles;  // of all images: of warps; or squares
  FastDiv row_tiles, column_tiles;
  FastDiv image_channels = {};             // of rows: channels of an image
  FastDiv lanes = {}, channel_tiles = {};  // of squares: channels of a block
  int32_t block_squares = 0;
};

struct Plan {
  Direction direction = Direction::kFprop;  // or dgrad
  bool has_rows = false;                    // innermost; otherwise channels are
  int32_t side = 3, stride = 1;             // of the filter
  Arguments args{};
  int32_t threads = 0;  // of a block
  int64_t blocks = 0;
  int64_t workspace_bytes = 0;  // none
  double estimated_ms = 0;

  // Filters of a block of squares, in float32.
  int64_t shared_bytes() const {
    return has_rows ? 0 : int64_t{4} * args.lanes.divisor * side * side;
  }
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction);

// The plan of a problem that declines() passes.
Plan make_plan(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::depthwise_direct
