// If full float32 takes no more time than TF32, float32 is computed in full.
#pragma once

#include "chip/scale.h"
#include "conv2d/family.h"

namespace haloconv {

// A plan that rounds nothing may take so many times as long as the fastest one: measurements of the
// same plan differ by 3 per cent.
inline constexpr double kFreePrecision = 1.03;

// Whether a plan in two terms of TF32, which needs three products instead of one, may be as fast as
// this one, which rounds. Plans that cannot are not made.
inline bool precision_may_be_free(const Conv2dProblem& problem, const Chip& chip,
                                  const Plan& rounding) {
  constexpr double kTermsFlopPerMs = 150e9;  // more than an H200's tensor cores sustain in terms
  return problem.flop() / (kTermsFlopPerMs * tf32_scale(chip)) <=
         kFreePrecision * rounding.estimated_ms;
}

}  // namespace haloconv
