// The problem with channels innermost that stands for one with rows innermost.
#pragma once

#include <string>

#include "conv2d/families/relaid/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

// What a problem's three tensors become.
struct RelaidProblem {
  Conv2dProblem problem;
  // Those that do not lie so already, and so are copied.
  bool copies_input = false, copies_filter = false, copies_output = false;
};

// Why there is none for a problem, or "".
std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32);

// Of a problem that declines() passes. `is_aligned`: all tensors begin at 16 bytes.
RelaidProblem relay(const Conv2dProblem& problem, Direction direction, bool is_aligned);

// Whether a filter of one tap meets every so many-th row and column of the input alone, which are
// all that the problem that stands for it has.
bool skips_pixels(const Conv2dProblem& problem);

// From the problem's tensors to those of the one that stands for it.
TensorCopy input_copy(const Conv2dProblem& problem, Direction direction);
TensorCopy filter_copy(const Conv2dProblem& problem);
TensorCopy output_copy(const Conv2dProblem& problem);
// One value for each channel, such as a bias.
TensorCopy values_copy(DataType type, int64_t channels);

}  // namespace haloconv::relaid
