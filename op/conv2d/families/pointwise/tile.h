// The tiles of the matrix products that filters of one tap are, and what their blocks take.
#pragma once

#include "conv2d/geometry/fast_div.h"

namespace haloconv::pointwise {

// Of a block: rows and columns are each 64 or 128.
struct Tile {
  int rows = 128, columns = 128;
  bool operator==(const Tile&) const = default;
};

inline constexpr Tile kTiles[] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};

inline constexpr int kThreads = 256;  // two warpgroups
inline constexpr int kDepth = 64;     // of the sums that a block has in shared memory as a chunk

// Chunks that a block has there: as many as leave room for blocks_of() a multiprocessor.
HALOCONV_HOST_DEVICE constexpr int stages_of(Tile tile) {
  return tile.rows + tile.columns > 192 ? 3 : 4;
}
HALOCONV_HOST_DEVICE constexpr int blocks_of(Tile tile) {
  return tile.rows + tile.columns > 128 ? 2 : 3;
}

// The same of a kernel that rounds float32: its sums are there twice, and leave registers for one
// block of the largest tile. One chunk of those ahead is being rounded.
HALOCONV_HOST_DEVICE constexpr bool is_alone(Tile tile, bool rounds) {
  return rounds && tile.rows + tile.columns > 192;
}
HALOCONV_HOST_DEVICE constexpr int stages_of(Tile tile, bool rounds) {
  return is_alone(tile, rounds) ? 6 : stages_of(tile);
}
HALOCONV_HOST_DEVICE constexpr int blocks_of(Tile tile, bool rounds) {
  return is_alone(tile, rounds) ? 1 : blocks_of(tile);
}

// Values that a thread may have on their way: as many as its registers allow.
HALOCONV_HOST_DEVICE constexpr int values_of(Tile tile) {
  return tile.rows + tile.columns == 192 ? 16 : 8;
}

HALOCONV_HOST_DEVICE constexpr int chunk_bytes(Tile tile) {
  return (tile.rows + tile.columns) * kDepth * 2;
}
// Of the column of ones that the bias's gradient takes.
inline constexpr int kOnesBytes = 8 * kDepth * 2;

// The first chunk begins at a multiple of 1024 bytes, the swizzle's period. The rest of the
// multiprocessor's 256 KiB is its L1 cache, through which go copies of less than 16 bytes.
constexpr int shared_bytes(Tile tile, bool rounds = false) {
  return 1024 + stages_of(tile, rounds) * chunk_bytes(tile);
}

}  // namespace haloconv::pointwise
