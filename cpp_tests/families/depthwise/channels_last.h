// Problems and values with channels innermost, for the tests of the depthwise kernels.
#pragma once

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

}  // namespace haloconv::testing
