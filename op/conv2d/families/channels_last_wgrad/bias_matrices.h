// Where the warps that sum grad_output for the bias find it in a stage: as matrices of 8 x 8
// values, of which four are 16 channels, a group, of 16 pixels, a step of the products' depth.
#pragma once

#include "conv2d/families/channels_last_wgrad/tile.h"

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr int32_t kGroupChannels = 16, kBoxGroups = 64 / kGroupChannels;

// The byte of a box where a lane's row of the first step begins, in a group of the box: of matrix
// lane / 8, where the second and the fourth have the later channels and the last two the later
// pixels. Such a row is eight channels of a pixel or, where grad_output has its rows innermost,
// eight columns of a channel, in lines of 128 bytes whose units of 16 are swizzled.
template <bool kOutputRows>
HALOCONV_HOST_DEVICE constexpr int32_t bias_row(int32_t lane, int32_t group) {
  const int32_t row = lane % 8, channels = lane / 8 % 2, pixels = lane / 16;
  const int32_t line = kOutputRows ? kGroupChannels * group + 8 * channels : 8 * pixels;
  const int32_t unit = kOutputRows ? pixels : 2 * group + channels;
  return (line + row) * 128 + (unit ^ row) * 16;
}

// The same of another step. Addresses of boxes are multiples of 128, so that this takes what begins
// anywhere.
template <bool kOutputRows>
HALOCONV_HOST_DEVICE constexpr uint32_t bias_row_of_step(uint32_t first, int32_t step) {
  constexpr int32_t kRowSteps = kRowColumns / 16;
  if (!kOutputRows) return first + static_cast<uint32_t>(step * 16 * 128);
  return (first + static_cast<uint32_t>(step / kRowSteps * 64 * 128)) ^
         static_cast<uint32_t>(step % kRowSteps * 32);
}

}  // namespace haloconv::sm90::channels_last_wgrad
