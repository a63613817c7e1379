// Products of one tap: the sum runs over pixels whose rows and images need not be told apart. If
// the pixels lie at even distances, they are treated as one row.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/problem.h"

namespace haloconv {

// The distance between neighbours of n x h x w pixels, if it is the same from row to row and from
// image to image.
std::optional<int64_t> even_distance(const Strides& strides, int64_t n, int64_t h, int64_t w);

// Whether the pixels of the input and of the output are the same, at even distances in both.
bool is_flat(const Conv2dProblem& problem);

}  // namespace haloconv
