// The least bytes that a direction moves.
#pragma once

#include <algorithm>

#include "conv2d/problem.h"

namespace haloconv {

// The bytes of input, filter and output, each once. Input pixels between strides that no tap meets
// are not read; dgrad writes zeros to them.
inline double met_bytes(const Conv2dProblem& p, Direction direction) {
  if (direction == Direction::kDgrad) return p.bytes();
  const int64_t rows = std::min(p.h, p.p() * p.r), columns = std::min(p.w, p.q() * p.s);
  const int64_t unmet = p.h * p.w - rows * columns;
  return p.bytes() - static_cast<double>(p.n * p.c) * static_cast<double>(unmet) *
                         static_cast<double>(size_of(p.type));
}

}  // namespace haloconv
