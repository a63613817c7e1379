// Which of a math warp's 16 output channels each of its rows of the accumulators is.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::halo {

// Four neighbouring lanes hold two rows, one in each half of the accumulators.
struct RowOrder {
  int32_t lane_step = 1, half_step = 8;  // channels to the next four lanes; to the other half

  HALOCONV_HOST_DEVICE int32_t channel(int32_t lane, int32_t half) const {
    return lane / 4 * lane_step + half * half_step;
  }
};

// A half has every second channel.
inline constexpr RowOrder kInterleavedRows{.lane_step = 2, .half_step = 1};

}  // namespace haloconv::halo
