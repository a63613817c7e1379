// The problem that replaces another one: it has the same sizes, or nearly so, in another layout.
#pragma once

#include <optional>
#include <string>

#include "conv2d/families/relaid/arguments.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

struct RelaidProblem {
  Conv2dProblem problem;
  // Whether it has rows innermost, and the original channels; otherwise it is the other way.
  bool has_rows = false;
  // Copies, all but their addresses, of those tensors that do not have that layout already.
  std::optional<TensorCopy> input = {}, filter = {}, output = {};
  // The copy of one value for each channel of the result, such as a bias, if channels were added.
  std::optional<TensorCopy> values = {};
  // Whether the problem has only those rows and columns of the input that a filter of one tap meets
  // with its stride.
  bool skips_pixels = false;

  // Bytes of the workspace that a copy takes, and that all take together.
  int64_t bytes_of(const std::optional<TensorCopy>& copy) const;
  int64_t bytes() const { return bytes_of(input) + bytes_of(filter) + bytes_of(output); }
};

// Why there is none for a problem, or "". `is_aligned`: all tensors begin at 16 bytes.
std::string declines(const Conv2dProblem& problem, Direction direction, bool tf32, bool is_aligned);

// Whether a forward pass or an input gradient has so few input channels that there are kernels made
// for them.
bool has_few_channels(const Conv2dProblem& problem, Direction direction);

// For a problem that declines() passes. `keeps_few`: input channels stay as few as they are.
RelaidProblem relay(const Conv2dProblem& problem, Direction direction, bool is_aligned,
                    bool keeps_few);

// The weight gradient's problem with channels innermost, except for the output's gradient, which
// keeps its rows innermost. None if its rows are no whole 16 bytes, or nothing is left to copy.
std::optional<RelaidProblem> relay_around_output(const Conv2dProblem& problem, bool is_aligned);

}  // namespace haloconv::relaid
