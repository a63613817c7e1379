// What a block computes, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm/staging.h"
#include "conv2d/families/implicit_gemm/windows.h"

namespace haloconv::windows_wgrad {

// Of the filter's gradient: output channels; taps times a chunk's channels. A warp has 64 of each.
struct Tile {
  int rows, columns;

  HALOCONV_HOST_DEVICE constexpr int warps_along_columns() const { return columns / 64; }
  constexpr bool operator==(const Tile&) const = default;
};

inline constexpr Tile kTiles[] = {{128, 256}, {64, 512}};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);
inline constexpr int kThreads = 256;

// From one output channel of a patch to the next: eight channels' 16 bytes lie in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t grad_output_line(int32_t pixels, int32_t element_bytes) {
  return pixels * element_bytes + 16;
}

}  // namespace haloconv::windows_wgrad
