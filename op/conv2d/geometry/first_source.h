// Where the kernels that go down rows of the source begin.
#pragma once

#include <cstdint>

#include "conv2d/geometry/geometry.h"

namespace haloconv {

// Where destination pixel 0 meets tap 0, taps in the order of the source's pixels.
inline int32_t first_source(const Axis& axis, const AxisPhase& phase) {
  const int32_t back = axis.shift_step < 0 ? (phase.taps - 1) * axis.shift_step : 0;
  return phase.origin + phase.first_shift + back;
}

}  // namespace haloconv
