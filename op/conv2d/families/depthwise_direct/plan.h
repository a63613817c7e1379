// Forward passes of groups of one channel, and input gradients without a stride, on any chip: each
// thread reads what its results meet itself, all at once, where the kernels of `depthwise` bring a
// block's windows to shared memory. That is faster with a stride of 2, where neighbours share
// little; where channels that fill no whole 16 bytes could only be brought one by one; and, in
// 16-bit types, where filters are small, so that multiplying takes less than going down rows
// together. Pure host functions.
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
// Channels innermost, which fill whole 16 bytes, in 16-bit types: a thread computes a tile of
// several channels, which it reads together.
struct VectorTile {
  int32_t rows, columns, channels;
  int32_t blocks;  // on a multiprocessor, that registers suffice for
};
// Measured on an H200: benchmarks/NOTES.md. 3x3 without a stride has one for small images too.
HALOCONV_HOST_DEVICE constexpr VectorTile vector_tile(int32_t side, int32_t stride, bool small) {
  if (side == 3 && stride == 2) return {1, 2, 8, 5};
  if (side == 3) return small ? VectorTile{2, 7, 4, 3} : VectorTile{2, 4, 8, 3};
  return stride == 2 ? VectorTile{1, 4, 4, 3} : VectorTile{2, 7, 2, 4};
}
HALOCONV_HOST_DEVICE constexpr bool has_small_tile(int32_t side, int32_t stride) {
  return side == 3 && stride == 1;
}
inline constexpr int32_t kVectorThreads = 128;  // of a block
inline constexpr int32_t kFilterGap = 4;        // from one tap's weights to the next one's

enum class Kernel { kRows, kSquares, kVectors };

// Whether all taps of neighbouring channels lie side by side.
enum class FilterOrder : int32_t { kOther, kForward, kBackward };

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
  int32_t block_squares = 0;               // or tiles of vectors
  // Of vectors: so many rows of tiles are a group, whose tiles go down before they go along;
  // row_tiles counts an image's groups.
  FastDiv group_rows = {};
  FilterOrder filter_order = FilterOrder::kOther;
};

struct Plan {
  Direction direction = Direction::kFprop;  // or dgrad
  Kernel kernel = Kernel::kSquares;
  int32_t side = 3, stride = 1;  // of the filter
  bool small = false;            // the tile of vectors
  Arguments args{};
  int32_t threads = 0;  // of a block
  int64_t blocks = 0;
  int64_t workspace_bytes = 0;  // none
  double estimated_ms = 0;

  // Filters of a block, in float32; of vectors with their biases.
  int64_t shared_bytes() const {
    if (kernel == Kernel::kRows) return 0;
    const int64_t taps = int64_t{side} * side, lanes = args.lanes.divisor;
    if (kernel == Kernel::kSquares) return 4 * lanes * taps;
    return 4 * (lanes * tile().channels + kFilterGap) * (taps + 1);
  }
  VectorTile tile() const {
    if (kernel == Kernel::kSquares) return {kSquareSide, kSquareSide, 1, 0};
    return vector_tile(side, stride, small);
  }
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction);

// The plans of a problem that declines() passes, the one expected to be fastest first.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip);

}  // namespace haloconv::depthwise_direct
