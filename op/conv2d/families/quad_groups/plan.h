// How groups of four channels run, on any chip. They are plain multiply-adds: each value that is
// brought is multiplied for all taps and all channels of its group that it meets. Of 16 bits with
// channels innermost the taps of a filter row are as deep as the matrix instruction, which has half
// of its products for nothing and still takes less time. Pure host functions.
//
// Filters are square, of 3 x 3 or 4 x 4 taps. The input gradient of a problem without stride is
// computed as a forward pass, whose filter is turned around and has its channels exchanged. That of
// a problem with a stride is computed by the matrix instruction alone, all pixels between two of
// the source at once.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::quad_groups {

inline constexpr int32_t kGroupChannels = 4;
inline constexpr int32_t kBlockThreads = 128;
inline constexpr int32_t kWarps = kBlockThreads / 32;
// Columns before the first that a result column's window has.
inline constexpr int32_t kPadLeft = 1;

// Rows innermost: a warp computes so many rows of a group. Its lanes have neighbouring columns, and
// give each other what windows share: the outermost lanes compute no results.
inline constexpr int32_t kWarpRows = 4, kMostWarpColumns = 30;

// Channels innermost: a warp computes so many columns of a row, each lane those of a group.
inline constexpr int32_t kLaneColumns = 8;

// By the matrix instruction: a block computes a rectangle of so many groups, rows and columns.
inline constexpr int32_t kProductGroups = 16, kProductRows = 8;
HALOCONV_HOST_DEVICE constexpr int32_t product_columns(int32_t stride) {
  return stride == 1 ? 16 : 8;
}

// Input gradients with a stride: a block computes a rectangle of so many groups, and rows and
// columns of periods, which are two by two pixels each.
inline constexpr int32_t kPeriodRows = 8, kPeriodColumns = 16;

enum class Way { kRows, kChannels, kProducts, kPeriods };

// What the kernels are told of a problem, as a forward pass, or of an input gradient with a stride.
struct Arguments {
  int32_t groups, h, w, p, q;  // of the source, and of the result
  int32_t pad_top, pad_left;   // pad_left: for periods
  Strides source, result;      // in elements
  // The filter's: to its first element, from group to group, and between neighbours. Its source
  // channels are those that are summed over.
  int64_t filter_first, filter_group, filter_result, filter_source, filter_row, filter_column;
  // Tiles of an image: of rows, columns, and groups, for a warp, or for the warps of a block.
  FastDiv row_tiles, column_tiles, group_tiles;
  int32_t tile_columns;
};

struct Plan {
  Direction direction = Direction::kFprop;  // or dgrad
  Way way = Way::kRows;
  int32_t side = 3, stride = 1;  // of the filter
  Arguments args{};
  int64_t blocks = 0;
  int64_t workspace_bytes = 0;  // none
  double estimated_ms = 0;
};

std::ostream& operator<<(std::ostream& os, const Plan& plan);

// Why the kernels do not take a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction);

// The plans of a problem that declines() passes; if not `all`, the fastest alone.
std::vector<Plan> make_plans(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool all);

}  // namespace haloconv::quad_groups
