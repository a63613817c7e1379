// Where the warps that multiply grad_output with ones for the bias find it in a stage: as matrices
// of 8 pixels x 8 channels, of which four are 16 channels, a group, of 16 pixels, a step of the
// products' depth.
#pragma once

#include "conv2d/families/channels_last_wgrad/tile.h"

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr int32_t kGroupChannels = 16, kBoxGroups = 64 / kGroupChannels;
inline constexpr int32_t kStepBytes = 16 * 128;  // from a step of a box to the next

// The byte of a box where a lane's pixel of the first step has its eight channels, in a group of
// the box: of matrix lane / 8, where the second and the fourth have the later channels and the last
// two the later pixels. Pixels are lines of 128 bytes, whose units of 16 are swizzled.
HALOCONV_HOST_DEVICE constexpr int32_t bias_row(int32_t lane, int32_t group) {
  const int32_t row = lane % 8, channels = lane / 8 % 2, pixels = lane / 16;
  return (8 * pixels + row) * 128 + ((2 * group + channels) ^ row) * 16;
}

}  // namespace haloconv::sm90::channels_last_wgrad
