#include "conv2d/problem.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

TEST(Problem, OutputSizeCountsPaddingStrideAndDilation) {
  EXPECT_EQ(parse_shape("a n1c1h7w9 k1r3s3").problem.p(), 5);
  EXPECT_EQ(parse_shape("a n1c1h7w9 k1r3s3").problem.q(), 7);
  const Conv2dProblem p = parse_shape("a n1c1h7w9 k1r3s2 stride=2,3 pad=1,2,3,0 dil=2,4").problem;
  EXPECT_EQ(p.p(), (7 + 3 - 4 - 1) / 2 + 1);
  EXPECT_EQ(p.q(), (9 + 3 - 4 - 1) / 3 + 1);
}

// The figures that the project started from.
TEST(Problem, ReferenceProblemsHaveTheKnownWork) {
  const auto shapes = load_shapes("reference");
  const double gflop[] = {616, 583, 372, 378};
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_NEAR(shapes[i].problem.flop() * 1e-9, gflop[i], 0.5) << shapes[i];
  }
  EXPECT_NEAR(shapes[0].problem.bytes() * 1e-9, 1.074 + 8.556, 0.001);
}

TEST(Problem, DenseStridesFollowTheLayout) {
  Conv2dProblem p = parse_shape("a n2c3h4w5 k6r1s1").problem;
  EXPECT_EQ(p.input.n, 60);
  EXPECT_EQ(p.input.c, 20);
  EXPECT_EQ(p.input.w, 1);
  p.set_dense_strides(true);
  EXPECT_EQ(p.input.c, 1);
  EXPECT_EQ(p.input.w, 3);
  EXPECT_EQ(p.output.h, 5 * 6);
  EXPECT_EQ(p.filter.n, 3);
}

TEST(Problem, PrintsAsOneLineInTheWordsOfTheShapeFiles) {
  const std::string line = "n1c2h30w40 k4r6s7 stride=8,9 pad=1,2,3,4 dil=2,3 groups=2";
  std::ostringstream text;
  text << parse_shape("a " + line).problem;
  EXPECT_EQ(text.str().substr(0, line.size()), line);
  EXPECT_EQ(text.str().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace haloconv::testing
