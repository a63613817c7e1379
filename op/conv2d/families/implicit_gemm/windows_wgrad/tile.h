// What a block computes, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm/staging.h"
#include "conv2d/families/implicit_gemm/windows.h"

namespace haloconv::windows_wgrad {

inline constexpr int kThreads = 256;

// Of the filter's gradient: output channels, of which a warp has 64; taps times a chunk's channels,
// of which warps side by side have as many each, a multiple of 8.
struct Tile {
  int rows, columns;

  HALOCONV_HOST_DEVICE constexpr int warps_along_columns() const {
    return kThreads / 32 / (rows / 64);
  }
  HALOCONV_HOST_DEVICE constexpr int warp_columns() const {
    return columns / warps_along_columns();
  }
  constexpr bool operator==(const Tile&) const = default;
};

// The narrow ones are for taps that leave much of the wide ones empty: nine of a 3x3 filter fill
// nine tenths, where they fill 9 of 16.
inline constexpr Tile kTiles[] = {{128, 256}, {64, 512}, {128, 160}, {64, 320}};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// From one output channel of a patch to the next: eight channels' 16 bytes lie in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t grad_output_line(int32_t pixels, int32_t element_bytes) {
  return pixels * element_bytes + 16;
}

}  // namespace haloconv::windows_wgrad
