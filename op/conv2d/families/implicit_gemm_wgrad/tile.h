// What a block computes, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::implicit_gemm_wgrad {

// Warps share a tile out among them; a warp's share is some rows by some columns.
struct Tile {
  int rows, columns;  // of the filter's gradient: output channels; taps times channels
  int warp_rows, warp_columns;

  HALOCONV_HOST_DEVICE constexpr int warps_along_columns() const { return columns / warp_columns; }
  HALOCONV_HOST_DEVICE constexpr int threads() const {
    return 32 * (rows / warp_rows) * warps_along_columns();
  }
  constexpr bool operator==(const Tile&) const = default;
};

inline constexpr Tile kTiles[] = {{128, 128, 64, 64}, {64, 128, 32, 64}, {64, 64, 32, 32}};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Blocks that share a multiprocessor, by the registers of their threads.
HALOCONV_HOST_DEVICE constexpr int blocks_of(const Tile& tile) {
  const int sums = tile.warp_rows * tile.warp_columns / 32;
  const int registers = sums >= 128 ? 255 : sums >= 64 ? 168 : 128;
  return 65536 / (registers * tile.threads());
}

// Whether a thread has registers for elements on their way beside its sums: of 16-bit types each
// takes one, as of float32.
HALOCONV_HOST_DEVICE constexpr bool takes_elements(const Tile& tile, int element_bytes) {
  return element_bytes == 4 || tile.warp_rows * tile.warp_columns < 64 * 64;
}

// A stage holds some pixels: of each first the output gradient's rows, in another part the input's
// columns. A pixel's part consists of units, which are copied as a whole.
inline constexpr int kUnitBytes = 16;
HALOCONV_HOST_DEVICE constexpr int step_pixels(int element_bytes) { return 64 / element_bytes; }
HALOCONV_HOST_DEVICE constexpr int stage_bytes(const Tile& tile) {
  return (tile.rows + tile.columns) * 64;
}
inline constexpr int kLeastStages = 2, kMostStages = 5;

// A step's pixels, as the copies find them; two steps' are kept.
struct alignas(16) StepPixel {
  int64_t input;  // elements to channel 0 before any tap's shift
  int32_t h, w;
  int64_t output;
  int64_t padding;
};

constexpr int shared_bytes(const Tile& tile, int stages, int element_bytes) {
  return stages * stage_bytes(tile) +
         2 * step_pixels(element_bytes) * static_cast<int>(sizeof(StepPixel));
}

// Where a unit of a pixel lies in its part of a stage, in bytes; a pixel's part has `pitch`, a
// multiple of 128. Of 16-bit types a load reads the units of one number of 8 pixels, of float32
// words of two neighbouring units of 4 pixels: they lie in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t place_of_unit(int32_t pixel, int32_t unit, int32_t pitch,
                                                     int element_bytes) {
  const int32_t turned = unit ^ (element_bytes == 4 ? (pixel & 3) * 2 : pixel & 7);
  return pixel * pitch + turned * kUnitBytes;
}

}  // namespace haloconv::implicit_gemm_wgrad
