// Filters as large as the image, as in a layer that makes a vector of it.
#pragma once

#include <optional>

#include "conv2d/problem.h"

namespace haloconv {

// If images and filters lie in memory as vectors of the same values: the problem of one pixel and
// one tap whose channels are these values, innermost. None if they do not lie so, or have only one
// pixel.
std::optional<Conv2dProblem> as_one_pixel(const Conv2dProblem& problem);

}  // namespace haloconv
