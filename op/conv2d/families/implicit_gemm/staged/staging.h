// Where a window comes in by elements: the copies put each channel's pixels side by side, as rows
// innermost have them in memory, and the block's threads turn these into the window, whose pixels
// have their channels side by side. While one chunk's window is read the next chunk's is staged.
//
// Where rows begin at words, but not all at a unit of 16 bytes, copies of the bytes that rows have
// in common may be many. Then units are copied as they lie in memory, with what is beside a row, so
// that each staged row is shifted by the bytes between a unit's beginning and its first pixel. The
// threads that turn it see to the shift, and to zeros in place of what lies before a row.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::implicit_gemm {

inline constexpr int kWordBytes = 4;
inline constexpr int kTurnedPixels = 32;  // by a warp, of one unit of channels
inline constexpr int kStagedBatch = 4;    // of a thread's copies, of channels

struct Staging {
  int32_t granule;         // bytes that one copy brings: 16, 8, 4 or, through a register, 2
  int32_t granule_pixels;  // neighbours in a row; of shifted rows those of a word
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

// Of shifted rows: from one to the next, and from one channel to the next.
inline constexpr int kShiftedBytes = 16;  // that one copy brings
HALOCONV_HOST_DEVICE constexpr int32_t shifted_row(int32_t columns, int32_t element_bytes) {
  return columns * element_bytes + kShiftedBytes;
}
HALOCONV_HOST_DEVICE constexpr int32_t shifted_line(int32_t rows, int32_t row_bytes) {
  constexpr int32_t kAllBanks = 128;
  return (rows * row_bytes + kAllBanks - 1) / kAllBanks * kAllBanks + 16;
}

// A unit of a shifted row, whose first byte counts from the image's first column on: how many of
// its bytes are copied, to the row's end. What lies before the row is copied with them.
HALOCONV_HOST_DEVICE constexpr int32_t shifted_unit_bytes(int32_t first, int32_t row_bytes) {
  if (row_bytes == 0 || first <= -kShiftedBytes || first >= row_bytes) return 0;
  return row_bytes - first < kShiftedBytes ? row_bytes - first : kShiftedBytes;
}

}  // namespace haloconv::implicit_gemm
