// What all kernels rely on: coordinates, counts and phases that fit their 32-bit index arithmetic.
#pragma once

#include <string>

#include "conv2d/problem.h"

namespace haloconv {

// Why no kernel takes the problem (its element type, its emptiness, or a count that is too large),
// or "".
std::string beyond_limits(const Conv2dProblem& problem, Direction direction);

}  // namespace haloconv
