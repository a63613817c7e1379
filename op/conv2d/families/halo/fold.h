// Neighbouring rows of the destination, or neighbouring columns, computed as if they were further
// channels, where a group has too few channels to fill the matrix instruction.
//
// Along that axis let pixels be ss apart in the source and taps hs (source_step and shift_step). A
// move by a = |hs| / gcd(ss, hs) pixels is one by b = a * ss / |hs| whole taps. So the pixels
// part + a * (count * u + j), j < count, are one computation of pixels u, with count times the rows
// and taps + b * (count - 1) taps: j's own come b later with each j, or earlier where hs is
// negative, and the others' weights are zero. Each part < a is a launch of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/geometry.h"

namespace haloconv::sm90 {

struct Fold {
  int32_t count = 1;  // pixels of the axis computed together
  int32_t parts = 1;  // a
  int32_t more_taps = 0;
  int32_t first_delay = 0, delay_step = 0;  // taps before those of j = 0; more with each j

  // What tap of the phase a folded tap is for the j-th row; out of its taps: none.
  HALOCONV_HOST_DEVICE int32_t tap_of(int32_t folded_tap, int32_t j) const {
    return folded_tap - first_delay - j * delay_step;
  }
};

Fold make_fold(const Axis& axis, int32_t count);

// The parts of a phase, fewer where it has fewer pixels.
std::vector<AxisPhase> parts_of(const Fold& fold, const Axis& axis, const AxisPhase& phase);

// What the pixels u of a part have for axis and phase.
Axis folded(const Fold& fold, const Axis& axis);
AxisPhase folded(const Fold& fold, const Axis& axis, const AxisPhase& part);

}  // namespace haloconv::sm90
