// What a block computes, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::implicit_gemm {

// Warps share a tile out among them; a warp's share is some pixels by some channels.
struct Tile {
  int pixels, channels;  // of the destination
  int warp_pixels, warp_channels;

  HALOCONV_HOST_DEVICE constexpr int warps_along_pixels() const { return pixels / warp_pixels; }
  HALOCONV_HOST_DEVICE constexpr int warps_along_channels() const {
    return channels / warp_channels;
  }
  HALOCONV_HOST_DEVICE constexpr int threads() const {
    return 32 * warps_along_pixels() * warps_along_channels();
  }
  constexpr bool operator==(const Tile&) const = default;
};

// A warp of 64 x 64 reads the fewest bytes of shared memory for a product: the narrow ones are for
// few channels, or few pixels. With 32 channels one of 128 pixels reads a sixth less than one
// of 64. With 16 channels to compute half of the products of 32 would be of no use.
inline constexpr Tile kTiles[] = {{256, 128, 64, 64}, {128, 128, 64, 64}, {256, 64, 64, 64},
                                  {128, 64, 64, 32},  {64, 64, 32, 32},   {256, 32, 64, 32},
                                  {512, 32, 128, 32}, {512, 16, 128, 16}};

inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Blocks that share a multiprocessor, by the registers of their threads: a thread has that many
// sums, and about 120 other registers at most.
HALOCONV_HOST_DEVICE constexpr int blocks_of(const Tile& tile) {
  const int sums = tile.warp_pixels * tile.warp_channels / 32;
  const int registers = sums >= 128 ? 255 : sums >= 64 ? 168 : 128;
  return 65536 / (registers * tile.threads());
}

// A stage holds a row for each of the tile's pixels and then for each of its channels, with
// kRowBytes of what is multiplied. A row consists of units, which are copied, and which a matrix
// load reads, as a whole.
inline constexpr int kUnitBytes = 16, kRowUnits = 4, kRowBytes = kRowUnits * kUnitBytes;
HALOCONV_HOST_DEVICE constexpr int stage_bytes(const Tile& tile) {
  return (tile.pixels + tile.channels) * kRowBytes;
}
inline constexpr int kLeastStages = 2, kMostStages = 5;

// Whether there is a kernel that gathers the source for each tap: where a thread copies from the
// more pixels, their places take too many registers.
HALOCONV_HOST_DEVICE constexpr bool takes_gathers(const Tile& tile) {
  return tile.warp_pixels <= 64;
}

// Whether its threads can load the source element by element: each has one pixel.
HALOCONV_HOST_DEVICE constexpr bool takes_elements(const Tile& tile) {
  return tile.threads() % tile.pixels == 0;
}

// Where a unit of a row lies in its part of a stage, in bytes. Eight rows' units of one number,
// which a matrix load reads at once, lie in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t place_of_unit(int32_t row, int32_t unit) {
  return row * kRowBytes + (unit ^ (row >> 1 & 3)) * kUnitBytes;
}

// After the products the same memory holds where each pixel's results go (int64_t), three numbers
// for each channel, and sums on their way: of each warp, kSliceRows pixels of all its channels at a
// time, or kSliceChannels channels of all its pixels. Pitches are in floats.
inline constexpr int kSliceRows = 16, kSliceChannels = 8;
HALOCONV_HOST_DEVICE constexpr int slice_pitch(const Tile& tile) { return tile.warp_channels + 8; }
HALOCONV_HOST_DEVICE constexpr int slice_channel_pitch(const Tile& tile) {
  return tile.warp_pixels + 4;  // a warp's writes are in all banks
}
HALOCONV_HOST_DEVICE constexpr int slice_floats(const Tile& tile) {
  const int by_rows = kSliceRows * slice_pitch(tile);
  const int by_channels = kSliceChannels * slice_channel_pitch(tile);
  return by_rows > by_channels ? by_rows : by_channels;
}
constexpr int result_bytes(const Tile& tile) {
  return tile.pixels * 8 + 3 * tile.channels * 4 + tile.threads() / 32 * slice_floats(tile) * 4;
}

constexpr int shared_bytes(const Tile& tile, int stages) {
  const int bytes = stages * stage_bytes(tile), results = result_bytes(tile);
  return bytes > results ? bytes : results;
}

}  // namespace haloconv::implicit_gemm
