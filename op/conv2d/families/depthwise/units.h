// Tensors with channels innermost whose pixels lie whole units of 16 bytes apart.
#pragma once

#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv::depthwise {

inline constexpr int64_t kUnit = 8;  // elements of 2 bytes

// Whether a tensor's pixels lie whole units apart, their channels side by side.
inline bool lies_in_units(const Strides& strides, int64_t n, int64_t h, int64_t w) {
  const auto is_multiple = [](int64_t extent, int64_t stride) {
    return extent == 1 || stride % kUnit == 0;
  };
  return strides.c == 1 && is_multiple(n, strides.n) && is_multiple(h, strides.h) &&
         is_multiple(w, strides.w);
}

// Whether both of a problem's tensors are such, of a 16-bit type.
inline bool lies_in_units(const Conv2dProblem& problem) {
  return size_of(problem.type) == 2 && problem.c % kUnit == 0 &&
         lies_in_units(problem.input, problem.n, problem.h, problem.w) &&
         lies_in_units(problem.output, problem.n, problem.p(), problem.q());
}

}  // namespace haloconv::depthwise
