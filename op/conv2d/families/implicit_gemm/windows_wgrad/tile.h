// What a block computes, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::windows_wgrad {

// Threads multiply, and also copy and prepare, unless a tile has threads for that alone: kThreads,
// or of those tiles as many warps as each says.
inline constexpr int kThreads = 256;
inline constexpr int kThreadsApart = 128;

// Of the filter's gradient: output channels, of which a warp has 64; taps times a chunk's channels,
// of which warps side by side have as many each, a multiple of 8.
struct Tile {
  int rows, columns;
  bool copies_apart = false;  // by threads behind those that multiply
  bool swizzles = false;      // grad_output's lines in shared memory
  int warps = kThreads / 32;  // that multiply

  HALOCONV_HOST_DEVICE constexpr int warps_along_columns() const { return warps / (rows / 64); }
  HALOCONV_HOST_DEVICE constexpr int warp_columns() const {
    return columns / warps_along_columns();
  }
  HALOCONV_HOST_DEVICE constexpr int copy_threads() const {
    return copies_apart ? kThreadsApart : kThreads;
  }
  HALOCONV_HOST_DEVICE constexpr int first_copy_thread() const {
    return copies_apart ? warps * 32 : 0;
  }
  HALOCONV_HOST_DEVICE constexpr int threads() const {
    return first_copy_thread() + copy_threads();
  }
  HALOCONV_HOST_DEVICE constexpr int elements() const { return rows * columns; }
  constexpr bool operator==(const Tile&) const = default;
};

// The wide ones are for taps and channels that fill their columns. Tiles whose threads copy apart
// take 0.7 to 0.95 of the time of others of like width. Those of four warps, of 72 columns each,
// are for nine taps: of 3x3 with 16 channels, or with 32.
inline constexpr Tile kTiles[] = {{128, 256},
                                  {64, 512},
                                  {64, 384, /*copies_apart=*/true},
                                  {128, 160, /*copies_apart=*/true, /*swizzles=*/true},
                                  {128, 144, /*copies_apart=*/true, /*swizzles=*/true, /*warps=*/4},
                                  {64, 288, /*copies_apart=*/true, /*swizzles=*/true, /*warps=*/4}};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// A step multiplies one to four pieces of a row of grad_output; a matrix instruction sums 32 bytes.
inline constexpr int kPieceBytes = 128;
inline constexpr int kPieceDepths = kPieceBytes / 32;
HALOCONV_HOST_DEVICE constexpr int piece_pixels(int element_bytes) {
  return kPieceBytes / element_bytes;
}

// Steps in shared memory: of one grad_output is multiplied, of the next the first operands are
// loaded, and the one after that has arrived.
inline constexpr int kLeastStages = 4, kMostStages = 5;

// Where threads of their own copy, of one step grad_output is multiplied, the next is ready, and
// the one after that is prepared. The others are on their way.
inline constexpr int kReadyStages = 3;
// In front of the steps: two barriers of 8 bytes for each.
inline constexpr int kBarrierBytes = 128;
static_assert(kMostStages * 2 * 8 <= kBarrierBytes);

// From one channel to the next, in shared memory. Eight channels' 16 bytes lie in all banks, either
// since lines are so far apart, or since each line of eight has its 16 bytes in another order.
HALOCONV_HOST_DEVICE constexpr int32_t grad_output_line(const Tile& tile) {
  return tile.swizzles ? kPieceBytes : kPieceBytes + 16;
}
HALOCONV_HOST_DEVICE constexpr int32_t grad_output_piece_bytes(const Tile& tile) {
  return tile.rows * grad_output_line(tile);
}
// Where a byte of a channel lies in a piece.
HALOCONV_HOST_DEVICE constexpr int32_t grad_output_place(const Tile& tile, int32_t channel,
                                                         int32_t byte) {
  const int32_t order = tile.swizzles ? (channel & 7) * 16 : 0;
  return channel * grad_output_line(tile) + (byte ^ order);
}
HALOCONV_HOST_DEVICE constexpr int32_t input_line(int32_t bytes) {
  return (bytes + 15) / 32 * 32 + 16;
}

}  // namespace haloconv::windows_wgrad
