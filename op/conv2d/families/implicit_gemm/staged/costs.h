// What a window costs by elements, in terms of what it costs by units, fitted to times of the
// reference problems on an H100: and so whether its rows had better be shifted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv2d/families/implicit_gemm/staged/staging.h"

namespace haloconv::implicit_gemm {

// To turn it, and by copies of 16 bytes or, so much more, of fewer.
constexpr double staged_window_cost(int32_t granule, bool shifts_rows) {
  constexpr double kTurn = 0.36, kShiftedTurn = 1.6, kCopy = 0.98;
  return (shifts_rows ? kShiftedTurn : kTurn) +
         kCopy * kShiftedBytes / std::max(granule, int32_t{kWordBytes});
}

// With copies of the bytes that rows have in common instead, of rows whose pixels are neighbours in
// memory.
constexpr bool shifting_pays(int32_t granule) {
  return granule >= kWordBytes &&
         staged_window_cost(kShiftedBytes, true) < staged_window_cost(granule, false);
}

}  // namespace haloconv::implicit_gemm
