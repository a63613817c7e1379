// Which channels of the result a lane has in products that are turned around (turned.h), and where
// it finds their filter in a stage. In each block of 64 rows it has the rows lane / 4 and lane / 4
// + 8 of its warp's 16: so 2 neighbouring channels of one block, or 4 of two.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last/tile.h"

namespace haloconv::sm90::channels_last {

// A stage's filter comes as boxes of 32 rows of 128 bytes, which are swizzled. Of a gradient's
// filter a row is one of the depth, with 32 channels of the result; of a forward pass's it is a
// channel, with 32 of the depth.
inline constexpr int kTurnedBoxRows = 32;
inline constexpr int kTurnedBoxBytes = kTurnedBoxRows * kStageRowBytes;

template <int kBlocks, bool kDgrad>
struct TurnedRows;

// Which lane has which channels is chosen so that those which read at once, eight of 16 bytes or 16
// of 8 with four rows among them, are in different banks.
template <int kBlocks>
struct TurnedRows<kBlocks, true> {
  // The first channel of a lane, among those of its warpgroup.
  static HALOCONV_HOST_DEVICE int32_t channel_of(int32_t warp, int32_t lane) {
    const int32_t g = lane / 4;
    return kBlocks == 2 ? warp * 32 + g / 2 * 4 + g % 2 * 16
                        : warp / 2 * 32 + warp % 2 * 8 + g / 4 * 4 + g / 2 % 2 * 16 + g % 2 * 2;
  }

  // Bytes from the warpgroup's first box to a lane's channels in row lane % 4, of the first step.
  static HALOCONV_HOST_DEVICE uint32_t start_of(int32_t warp, int32_t lane) {
    const int32_t channel = channel_of(warp, lane), row = lane % 4;
    return channel / 32 * kTurnedBoxBytes + row * kStageRowBytes + (channel % 32 * 4 ^ row * 16);
  }

  // The same of a step of 8 rows, and four rows further.
  static HALOCONV_HOST_DEVICE uint32_t at_step(uint32_t start, int step) {
    return start + step * (8 * kStageRowBytes);
  }
  static HALOCONV_HOST_DEVICE uint32_t further(uint32_t at) {
    return (at ^ 4 * 16) + 4 * kStageRowBytes;
  }
};

// The first of all lanes' channels are in one box, the second in the next and so on, so that the
// eight rows of a matrix have one channel of each lane's.
template <int kBlocks>
struct TurnedRows<kBlocks, false> {
  static HALOCONV_HOST_DEVICE int32_t channel_of(int32_t warp, int32_t lane) {
    return (warp * 8 + lane / 4) * (2 * kBlocks);
  }

  // Bytes from the warpgroup's first box to the row of a matrix that a lane names: matrices are of
  // the first channels and the second, then of the same half a step further.
  static HALOCONV_HOST_DEVICE uint32_t start_of(int32_t warp, int32_t lane) {
    const int32_t row = lane % 8, matrix = lane / 8;
    return matrix % 2 * kTurnedBoxBytes + (warp * 8 + row) * kStageRowBytes +
           (matrix / 2 ^ row) * 16;
  }

  static HALOCONV_HOST_DEVICE uint32_t at_step(uint32_t start, int step) {
    return start ^ step * 32;
  }
};

}  // namespace haloconv::sm90::channels_last
