// Problems and values with channels innermost, and the comparison with the definition, for the
// tests of the depthwise kernels.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "conv2d/problem.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {

inline Conv2dProblem channels_last(Conv2dProblem problem) {
  problem.set_dense_strides(true);
  return problem;
}

// Dense (n, c, h, w) values as they lie with channels innermost.
inline Values moved(const Values& values, int64_t c, int64_t h, int64_t w) {
  Values to(values.size());
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t pixel = i % (h * w), image = i / (c * h * w);
    to.at((image * h * w + pixel) * c + i / (h * w) % c) = values.at(i);
  }
  return to;
}

// What an output is before it is written: no sum of small integers comes near.
inline constexpr double kUnwritten = 1e9;

// Expects the definition's values of an emulation of fprop or dgrad where the kernels take the
// problem; says whether they do.
template <class Arguments>
bool follows_definition(const Conv2dProblem& p, Direction direction,
                        std::optional<Arguments> (*make)(const Conv2dProblem&, Direction),
                        Values (*emulate)(const Conv2dProblem&, const Arguments&, Direction,
                                          const Values& source, const Values& filter)) {
  const std::optional<Arguments> arguments = make(p, direction);
  if (!arguments) return false;
  const Values filter = small_integers(filter_count(p), 2);
  const auto of_input = [&](const Values& v) { return moved(v, p.c, p.h, p.w); };
  const auto of_output = [&](const Values& v) { return moved(v, p.k, p.p(), p.q()); };
  const Values weights = moved(filter, p.group_c(), p.r, p.s);
  if (direction == Direction::kFprop) {
    const Values input = small_integers(input_count(p), 1);
    EXPECT_EQ(emulate(p, *arguments, direction, of_input(input), weights),
              of_output(reference_fprop(p, input, filter, {})))
        << p;
  } else {
    const Values grad_output = small_integers(output_count(p), 3);
    EXPECT_EQ(emulate(p, *arguments, direction, of_output(grad_output), weights),
              of_input(reference_dgrad(p, grad_output, filter)))
        << p;
  }
  return true;
}

}  // namespace haloconv::testing
