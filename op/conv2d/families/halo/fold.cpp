#include "conv2d/families/halo/fold.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

Fold make_fold(const Axis& axis, int32_t count) {
  if (count == 1) return {};
  const int32_t gcd = std::gcd(axis.source_step, axis.shift_step);
  const int32_t delay = axis.source_step / gcd;
  const int32_t more_taps = delay * (count - 1);
  const bool backwards = axis.shift_step < 0;
  return {.count = count,
          .parts = std::abs(axis.shift_step) / gcd,
          .more_taps = more_taps,
          .first_delay = backwards ? more_taps : 0,
          .delay_step = backwards ? -delay : delay};
}

std::vector<AxisPhase> parts_of(const Fold& fold, const Axis& axis, const AxisPhase& phase) {
  std::vector<AxisPhase> parts;
  for (int32_t i = 0; i < std::min(fold.parts, phase.pixels); ++i) {
    AxisPhase part = phase;
    part.first_pixel += i * axis.pixel_step;
    part.pixels = static_cast<int32_t>(ceil_div(phase.pixels - i, fold.parts));
    part.origin += i * axis.source_step;
    parts.push_back(part);
  }
  return parts;
}

Axis folded(const Fold& fold, const Axis& axis) {
  Axis result = axis;
  result.pixel_step *= fold.parts * fold.count;
  result.source_step *= fold.parts * fold.count;
  return result;
}

AxisPhase folded(const Fold& fold, const Axis& axis, const AxisPhase& part) {
  AxisPhase result = part;
  result.pixels = static_cast<int32_t>(ceil_div(part.pixels, fold.count));
  result.taps += fold.more_taps;
  result.first_shift -= fold.first_delay * axis.shift_step;
  return result;
}

}  // namespace haloconv::halo
