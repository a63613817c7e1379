// Where the warps that add up grad_output for the bias find it in a stage: in lines of 128 bytes,
// whose units of 16, an eight of values each, are swizzled. A lane takes one eight of a piece.
#pragma once

#include "conv2d/families/channels_last_wgrad/tile.h"

namespace haloconv::sm90::channels_last_wgrad {

// A piece is four pixels with their 64 channels or, where grad_output has its rows innermost, eight
// columns of 64 channels, of which a lane takes an eight in each half.
template <bool kOutputRows>
inline constexpr int32_t kPieceHalves = kOutputRows ? 2 : 1;
inline constexpr int32_t kHalfBytes = 32 * 128;

// In a box.
template <bool kOutputRows>
HALOCONV_HOST_DEVICE constexpr int32_t bias_pieces(int32_t k_steps) {
  return 4 * k_steps / kPieceHalves<kOutputRows>;
}

// The byte of a box where a lane's eight of a piece is: eight channels of pixel lane / 8, or
// columns of channel lane.
template <bool kOutputRows>
HALOCONV_HOST_DEVICE constexpr int32_t bias_eight(int32_t lane, int32_t piece) {
  if (kOutputRows) {
    constexpr int32_t kRowPieces = kRowColumns / 8;
    return (piece / kRowPieces * 64 + lane) * 128 + (piece % kRowPieces ^ lane % 8) * 16;
  }
  const int32_t first = lane / 8 * 128 + (lane % 8 ^ lane / 8) * 16;  // of an even piece
  return piece * 4 * 128 + (first ^ (piece & 1) * 4 * 16);
}

}  // namespace haloconv::sm90::channels_last_wgrad
