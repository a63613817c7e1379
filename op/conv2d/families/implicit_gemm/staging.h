// Where a window comes in by elements: the copies put each channel's pixels side by side, as rows
// innermost have them in memory, and the block's threads turn these into the window, whose pixels
// have their channels side by side. While one chunk's window is read the next chunk's is staged.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::implicit_gemm {

inline constexpr int kTurnedPixels = 32;  // by a warp, of one unit of channels
inline constexpr int kStagedBatch = 4;    // of a thread's copies, of channels

struct Staging {
  int32_t granule;         // bytes that one copy brings: 16, 8, 4 or, through a register, 2
  int32_t granule_pixels;  // neighbours in a row
  int32_t line;            // bytes from one channel to the next
  int32_t bytes;
  FastDiv row_granules;  // of a row at the window's pitch
  int32_t granules;      // of a channel
  // Threads with so many granules between them bring one channel; others at the same time the next.
  int32_t log_threads;
};

// A window's first column is moved so far to the left that granules begin with it. The column
// counts in the source.
HALOCONV_HOST_DEVICE constexpr int32_t lead_of(int32_t column, int32_t granule_pixels) {
  return column & (granule_pixels - 1);
}

// Eight channels' 16 bytes, which a matrix load reads, lie in all banks; a warp turns whole pixels.
HALOCONV_HOST_DEVICE constexpr int32_t staged_line(int32_t pixels, int32_t element_bytes) {
  constexpr int32_t kAllBanks = 128;
  const int32_t turned = (pixels + kTurnedPixels - 1) / kTurnedPixels * kTurnedPixels;
  return (turned * element_bytes + kAllBanks - 1) / kAllBanks * kAllBanks + 16;
}

}  // namespace haloconv::implicit_gemm
