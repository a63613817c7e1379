// Which of the two phases of a row the pixels of the source serve.
//
// With a stride of 2 along rows, the result's even pixels meet other taps than its odd ones: these
// are two phases. Pixels 2j and 2j + 1 of the result meet source pixels j + lowest + shift, for
// shifts 0, 1, ... Padding and taps decide which of the phases each shift serves:
//
//   2 taps, no padding      both
//   4 taps, padded by 1     even, both, odd
//   3 taps, padded by 1     both, odd
//   3 taps, no padding      even, both
#pragma once

#include "conv2d/geometry/fast_div.h"

namespace haloconv::phase_pairs {

inline constexpr int kPhases = 2;  // in a row
inline constexpr int kMaxShifts = 3;

struct Pattern {
  int shifts = 0;
  int phases = 0;  // those that each shift serves, two bits each: the even one, the odd one
  bool operator==(const Pattern&) const = default;

  HALOCONV_HOST_DEVICE constexpr bool serves(int shift, int phase) const {
    return (phases >> (2 * shift + phase) & 1) != 0;
  }
  // The place of a shift's phase among all that are served, shift by shift.
  HALOCONV_HOST_DEVICE constexpr int slot(int shift, int phase) const {
    int slot = 0;
    for (int i = 0; i < shift; ++i) slot += serves(i, 0) + serves(i, 1);
    return slot + (phase == 1 && serves(shift, 0));
  }
  HALOCONV_HOST_DEVICE constexpr int slots() const { return slot(shifts, 0); }
  // Source channels of a chunk, 8 for each step. With their shifts they make at least three steps,
  // because while two are in flight, the next one's pixels need other registers.
  HALOCONV_HOST_DEVICE constexpr int depth() const {
    return shifts == 1 ? 32 : shifts == 2 ? 16 : 8;
  }
};

// The patterns for which there are kernels.
inline constexpr Pattern kPatterns[] = {{1, 0b11}, {3, 0b10'11'01}, {2, 0b10'11}, {2, 0b11'01}};

}  // namespace haloconv::phase_pairs
