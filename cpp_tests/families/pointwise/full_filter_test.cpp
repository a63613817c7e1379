// Forward passes of filters as large as the image are products of vectors.
#include "conv2d/families/pointwise/full_filter.h"

#include <gtest/gtest.h>

#include "cpp_tests/families/pointwise/full_filter_shapes.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using pointwise::product_of_full_filter;

Conv2dProblem problem_of(const std::string& text, bool channels_last = false) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.set_dense_strides(channels_last);
  return problem;
}

// With rows innermost the values of images and filters come in the order of the reference.
TEST(Sm90PointwiseFullFilter, IsAWeightGradientOfOneTap) {
  for (const char* text : kFullFilterShapes) {
    const Conv2dProblem p = problem_of(text);
    const auto product = product_of_full_filter(p);
    ASSERT_TRUE(product) << p;
    const Values input = small_integers(input_count(p), 1),
                 filter = small_integers(filter_count(p), 2);
    EXPECT_EQ(reference_wgrad(*product, input, filter), reference_fprop(p, input, filter, {})) << p;
    EXPECT_EQ(product->filter.n, p.output.n) << p;
  }
}

TEST(Sm90PointwiseFullFilter, IsOfVectorsThatLieAlike) {
  EXPECT_TRUE(product_of_full_filter(problem_of("n2c8h4w4 k16r4s4")));
  EXPECT_TRUE(product_of_full_filter(problem_of("n2c8h4w4 k16r4s4", true)));
  EXPECT_TRUE(product_of_full_filter(problem_of("n2c8h4w4 k16r4s4 stride=2,2"))) << "one place";
  EXPECT_FALSE(product_of_full_filter(problem_of("n2c8h4w4 k16r4s4 pad=1,0,0,0")));
  EXPECT_FALSE(product_of_full_filter(problem_of("n2c8h5w4 k16r4s4")));
  EXPECT_FALSE(product_of_full_filter(problem_of("n2c8h4w4 k16r4s4 groups=2")));
  EXPECT_FALSE(product_of_full_filter(problem_of("n2c8h1w1 k16r1s1")));
  Conv2dProblem mixed = problem_of("n2c8h4w4 k16r4s4");
  mixed.filter = problem_of("n2c8h4w4 k16r4s4", true).filter;
  EXPECT_FALSE(product_of_full_filter(mixed));
  Conv2dProblem apart = problem_of("n2c8h4w4 k16r4s4");
  apart.input.c += 1;
  EXPECT_FALSE(product_of_full_filter(apart));
}

}  // namespace
}  // namespace haloconv::testing
