// Where a thread's sums lie in a box of a tile's residual or results: pixels in rows of 128 bytes,
// whose 16-byte chunks are swizzled as the copy engine does.
//
// The matrix instruction leaves a thread two neighbouring channels of each 8, of the pixels lane /
// 4 and lane / 4 + 8 of its warp's 16: one word of each chunk. The eight rows and four words that a
// warp reads or writes at once are all of the 32 banks.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/tile.h"

namespace haloconv::sm90::channels_last {

inline constexpr int32_t kBoxRowBytes = 2 * kBoxChannels;
inline constexpr int32_t kWarpPixels = 16;  // of a block of 64

// The thread's word of chunk 0 in the first of its pixels, `rows` being where its warp's begin, a
// multiple of 1024 bytes.
HALOCONV_HOST_DEVICE constexpr uint32_t first_word(uint32_t rows, int32_t lane) {
  const uint32_t row = static_cast<uint32_t>(lane) / 4, word = static_cast<uint32_t>(lane) % 4;
  return rows + row * kBoxRowBytes + row * 16 + word * 4;
}

// The word of another chunk, and of the second pixel.
HALOCONV_HOST_DEVICE constexpr uint32_t word_at(uint32_t first, uint32_t chunk, uint32_t half) {
  return (first ^ chunk * 16) + half * (8 * kBoxRowBytes);
}

}  // namespace haloconv::sm90::channels_last
