// Where 16 bytes of a filter that stays belong in shared memory, if threads put it there
// (laid_filter.cuh): where the copy engine would.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/tile.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// The threads bring so much in two rounds of loads.
inline constexpr int64_t kMostLaidBytes = 64 * 1024;

// Whether a layer takes less time so. All blocks want the same few lines of memory, and the engine
// asks for each row by itself: it takes 13 cycles a row of 80 bytes and 20 of 48, and at most 6 of
// 96 bytes and more (an H200). Rows of 32 bytes gain too, if less (2 to 6 % of a layer's time),
// those of 144 bytes lose as much. Of several taps the filter is a small part of what a tile reads.
inline bool gains_by_laying(const Conv2dProblem& problem) {
  constexpr int64_t kSectorBytes = 32, kMostRowBytes = 128;
  const int64_t bytes = problem.filter.n * size_of(problem.type);
  return size_of(problem.type) == 2 && problem.r * problem.s == 1 && bytes < kMostRowBytes &&
         (bytes % kSectorBytes != 0 || bytes == kSectorBytes);
}

// Bytes from the filter's start in shared memory to elements 8 * unit and on of row `row` in
// memory. A row of dgrad's is one of the source's channels, else one of the result's.
HALOCONV_HOST_DEVICE constexpr int32_t laid_at(const Tile& tile, bool dgrad, int32_t row,
                                               int32_t unit) {
  const int32_t row_bytes = dgrad ? dgrad_row_bytes(tile) : tile.row_bytes();
  const int32_t row_units = row_bytes / 16, unit_bytes = tile.channels * tile.row_bytes();
  // The swizzle.
  const int32_t turn = row / (8 / row_units) % row_units;
  const int32_t in_row = (unit % row_units ^ turn) * 16;
  if (!dgrad) return unit / row_units * unit_bytes + row * row_bytes + in_row;
  return row / tile.depth * unit_bytes +
         (unit / row_units * tile.depth + row % tile.depth) * row_bytes + in_row;
}

}  // namespace haloconv::sm90::channels_last
