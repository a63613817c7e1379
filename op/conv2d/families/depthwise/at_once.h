// How many elements of tensors with channels innermost are brought at once.
#pragma once

#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv::depthwise {

// Those of 16 bytes, or one where the channels fill no whole such.
inline int32_t elements_at_once(const Conv2dProblem& problem) {
  const auto unit = static_cast<int32_t>(16 / size_of(problem.type));
  return problem.c % unit == 0 ? unit : 1;
}

}  // namespace haloconv::depthwise
