// What the Hopper kernels for rows innermost need from a chip and a problem, in all families.
#pragma once

#include <string>

#include "chip/chip.h"
#include "conv2d/problem.h"

namespace haloconv {

// The strides whose pixels these kernels can tell apart in shared memory.
inline constexpr int kMostRowsStride = 8;

// Why no Hopper kernel for rows innermost takes the problem, or "".
std::string hopper_rows_decline(const Conv2dProblem& problem, Direction direction,
                                const Chip& chip);

// A 1x1 problem whose rows follow each other becomes one of a single row; others stay as they are.
Conv2dProblem flattened(const Conv2dProblem& problem);

// The most elements that one channel of an image spans.
int64_t plane_span(const Strides& strides, int64_t height, int64_t width);

}  // namespace haloconv
