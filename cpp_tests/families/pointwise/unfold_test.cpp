// Strided problems unfolded to filters of one tap, by the definition.
#include "conv2d/families/pointwise/unfold.h"

#include <gtest/gtest.h>

#include "cpp_tests/families/pointwise/unfold_shapes.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using pointwise::unfold_of;
using pointwise::unfolded;

// What the copy holds: (image, channel, row, column of the filter, output pixel).
Values copy_of(const Conv2dProblem& p, const Values& input) {
  Values copy;
  for (int64_t row = 0; row < p.n * p.c * p.r * p.s; ++row) {
    const int64_t s = row % p.s, r = row / p.s % p.r, plane = row / p.s / p.r;
    for (int64_t pixel = 0; pixel < p.p() * p.q(); ++pixel) {
      const int64_t h = pixel / p.q() * p.stride_h - p.pad_top + r * p.dilation_h;
      const int64_t w = pixel % p.q() * p.stride_w - p.pad_left + s * p.dilation_w;
      const bool exists = h >= 0 && h < p.h && w >= 0 && w < p.w;
      copy.push_back(exists ? input.at((plane * p.h + h) * p.w + w) : 0);
    }
  }
  return copy;
}

TEST(PointwiseUnfold, IsAProductOfOneTap) {
  for (const UnfoldShape& shape : unfold_shapes()) {
    const Conv2dProblem p = problem_of(shape), product = unfolded(p);
    const auto unfold = unfold_of(p, Direction::kWgrad);
    ASSERT_TRUE(unfold) << shape.name;
    EXPECT_EQ(unfold_of(p, Direction::kFprop).has_value(), shape.has_fprop) << shape.name;
    EXPECT_EQ(unfold_of(p, Direction::kDgrad).has_value(), shape.has_dgrad) << shape.name;
    EXPECT_EQ(unfold->bytes(), input_count(product) * 2) << shape.name;
    EXPECT_EQ(p.q() % unfold->unit, 0) << shape.name;
    const Values input = small_integers(input_count(p), 1);
    const Values filter = small_integers(filter_count(p), 2);
    const Values grad_output = small_integers(output_count(p), 3);
    const Values copy = copy_of(p, input);
    EXPECT_EQ(reference_fprop(product, copy, filter, {}), reference_fprop(p, input, filter, {}))
        << shape.name;
    EXPECT_EQ(reference_wgrad(product, grad_output, copy), reference_wgrad(p, grad_output, input))
        << shape.name;
    if (!shape.has_dgrad) continue;
    const Values gradient = reference_dgrad(product, grad_output, filter);
    const Values expected = reference_dgrad(p, grad_output, filter);
    EXPECT_EQ(gradient, copy_of(p, expected)) << shape.name;
  }
}

TEST(PointwiseUnfold, IsOfStridesAndFewTaps) {
  const auto has = [](const char* text, Direction direction) {
    Conv2dProblem problem = parse_shape("a " + std::string(text)).problem;
    problem.type = DataType::kBFloat16;
    return unfold_of(problem, direction).has_value();
  };
  EXPECT_FALSE(has("n2c8h16w16 k16r1s1", Direction::kFprop));
  EXPECT_FALSE(has("n2c8h16w16 k16r3s3 pad=1,1,1,1", Direction::kWgrad));
  EXPECT_FALSE(has("n2c8h17w17 k16r7s7 stride=2,2 pad=3,3,3,3", Direction::kFprop));
  EXPECT_FALSE(has("n2c8h16w16 k16r1s1 stride=2,2 groups=2", Direction::kFprop));
  EXPECT_FALSE(has("n2c8h16w16 k16r1s1 stride=2,2 pad=1,1,1,1", Direction::kDgrad));
  // A copy of more than 128 MiB.
  EXPECT_FALSE(has("n64c256h112w112 k16r2s2 stride=2,2", Direction::kFprop));
  Conv2dProblem channels_innermost = problem_of(unfold_shapes().front());
  channels_innermost.set_dense_strides(true);
  EXPECT_FALSE(unfold_of(channels_innermost, Direction::kFprop));
}

}  // namespace
}  // namespace haloconv::testing
