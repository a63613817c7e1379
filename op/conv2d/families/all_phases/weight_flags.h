// A byte by which the packing kernel says which of a column's weights by all shifts of a unit of
// source channels are finite. Where all are, zeros beside the source make nothing NaN.
//
// In tiles of few columns, where edges are nearest, a weight that is alone in not being finite is
// packed as 1 or -1, which meets zeros without harm, and is as good as itself where the source is
// not finite. Its own products are added to the sums afterwards, from pixels that exist:
// lone_weights.cuh. Where several are not finite they are packed as they are, and what they make
// NaN is computed again: nonfinite_repair.cuh.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::all_phases {

// Those of more columns have no registers left: they took 5 % longer with finite weights.
HALOCONV_HOST_DEVICE constexpr bool takes_lone_weights(int columns) { return columns == 16; }

inline constexpr uint32_t kAllFinite = 0, kSeveralNotFinite = 255;

// Of a lone weight, by its number among those of the unit: shift * channels of a unit + channel. At
// most 16 shifts of 8 channels.
HALOCONV_HOST_DEVICE inline uint32_t flag_of_lone(int32_t number) {
  return static_cast<uint32_t>(number + 1);
}
HALOCONV_HOST_DEVICE inline bool is_lone(uint32_t flag) {
  return flag != kAllFinite && flag != kSeveralNotFinite;
}
HALOCONV_HOST_DEVICE inline int32_t number_of_lone(uint32_t flag) {
  return static_cast<int32_t>(flag) - 1;
}

// The columns of a tile, by their bits, that have a lone weight, and that have several weights
// which are not finite in a unit.
struct alignas(16) ColumnFlags {
  uint32_t lone[4], several[4];
  int32_t column_tile;  // that they are of

  HALOCONV_HOST_DEVICE bool has_lone() const {
    return (lone[0] | lone[1] | lone[2] | lone[3]) != 0;
  }
};

}  // namespace haloconv::all_phases
