// A fold computes neighbouring rows of the destination, or neighbouring columns, as if they were
// further channels. It is used if a group has too few channels to fill the matrix instruction.
//
// Along the folded axis let neighbouring pixels be ss apart in the source and neighbouring taps hs
// (source_step and shift_step). Moving on by a = |hs| / gcd(ss, hs) pixels is the same as moving on
// by b = a * ss / |hs| whole taps. So the pixels part + a * (count * u + j), j < count, are one
// computation of pixels u, with count times the rows and taps + b * (count - 1) taps. The taps of
// pixel j begin b later with each j (earlier if hs is negative); at the other taps its weights are
// zeros. Each part < a is a launch of its own.
//
// With ss = hs = 1, 3 taps and count = 2, so a = b = 1, the rows of the accumulators are
//
//   folded tap         0    1    2    3
//   pixel 2u           w0   w1   w2   0
//   pixel 2u + 1       0    w0   w1   w2
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/geometry.h"

namespace haloconv::halo {

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

}  // namespace haloconv::halo
