// The problem that stands for another one: the same sizes, or nearly so, the tensors laid out anew.
#pragma once

#include <optional>
#include <string>

#include "conv2d/families/relaid/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

struct RelaidProblem {
  Conv2dProblem problem;
  // Whether its tensors have rows innermost, those of the other channels; else it is the other way.
  bool has_rows = false;
  // Copies, all but their addresses, of those tensors that do not lie so already.
  std::optional<TensorCopy> input = {}, filter = {}, output = {};
  // Of one value for each channel of the result, such as a bias, where channels were added.
  std::optional<TensorCopy> values = {};
  // Whether a filter of one tap meets every so many-th row and column of the input alone, which are
  // all that the problem has.
  bool skips_pixels = false;

  // Of the workspace that a copy takes, and all together.
  int64_t bytes_of(const std::optional<TensorCopy>& copy) const;
  int64_t bytes() const { return bytes_of(input) + bytes_of(filter) + bytes_of(output); }
};

// Why there is none for a problem, or "". `is_aligned`: all tensors begin at 16 bytes.
std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32, bool is_aligned);

// Whether forward and the input's gradient have so few input channels that there are kernels for
// them alone.
bool has_few_channels(const Conv2dProblem& problem, Direction direction);

// Of a problem that declines() passes. `keeps_few`: input channels stay as few as they are.
RelaidProblem relay(const Conv2dProblem& problem, Direction direction, bool is_aligned,
                    bool keeps_few);

// The weight gradient's problem with channels innermost but for the output's gradient, which stays
// as it is, its rows innermost. None where that has no whole 16 bytes, or nothing is left to copy.
std::optional<RelaidProblem> relay_around_output(const Conv2dProblem& problem, bool is_aligned);

}  // namespace haloconv::relaid
