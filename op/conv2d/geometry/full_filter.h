// Filters as large as the image, as of a layer that makes a vector of it.
#pragma once

#include <optional>

#include "conv2d/problem.h"

namespace haloconv {

// Where images and filters lie as vectors of the same values: the problem of one pixel, and one
// tap, whose channels these values are, innermost. None where they do not lie so, or have one
// pixel.
std::optional<Conv2dProblem> as_one_pixel(const Conv2dProblem& problem);

}  // namespace haloconv
