// Where full float32 costs no time beside TF32, it is given.
#pragma once

#include "chip/scale.h"
#include "conv2d/family.h"

namespace haloconv {

// A plan that rounds nothing may take so many times what the fastest one takes: 3 per cent are
// within what measurements of the same plan differ by.
inline constexpr double kFreePrecision = 1.03;

// Whether a plan in two terms of TF32, whose three products for one take three times the tensor
// cores' time, may be as fast as this one, which rounds. Spares the planning of those that cannot.
inline bool precision_may_be_free(const Conv2dProblem& problem, const Chip& chip,
                                  const Plan& rounding) {
  constexpr double kTermsFlopPerMs = 150e9;  // more than an H200's tensor cores sustain in terms
  return problem.flop() / (kTermsFlopPerMs * tf32_scale(chip)) <=
         kFreePrecision * rounding.estimated_ms;
}

}  // namespace haloconv
