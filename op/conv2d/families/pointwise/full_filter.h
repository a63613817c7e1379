// Forward of filters as large as the image, as of a layer that makes a vector of it: both images
// and filters lie as vectors of the same values, whose products are all that is to be computed.
// That is what the weight gradient of one tap computes, of these values as pixels, which are shared
// among blocks: images stand for output channels, filters for the input.
#pragma once

#include <optional>

#include "conv2d/problem.h"

namespace haloconv::pointwise {

// The weight gradient that the forward pass is: its grad_output is the input, its input the filter,
// and its result the output. None where images and filters do not lie so, or have one tap alone.
std::optional<Conv2dProblem> product_of_full_filter(const Conv2dProblem& problem);

}  // namespace haloconv::pointwise
