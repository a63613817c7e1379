// Filters with strides, or of several taps, as filters of one tap: forward and weight gradient read
// a copy of the input, unfolded, that has for each output pixel what its taps meet side by side as
// (channel, row, column) of the filter, zeros for padding. The input gradient of a strided filter
// of one tap is computed for the pixels that have one, and copied to its places among zeros.
//
// The copies take time and memory, but where the windows hardly overlap less than to read with
// strides.
#pragma once

#include <optional>

#include "conv2d/geometry/unfold.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

// None where a problem in rows that is no filter of one tap is not worth it, or cannot be unfolded.
std::optional<Unfold> unfold_of(const Conv2dProblem& problem, Direction direction);

// The problem of one tap, flattened(), of a problem that has one.
Conv2dProblem unfolded(const Conv2dProblem& problem);

}  // namespace haloconv::pointwise
