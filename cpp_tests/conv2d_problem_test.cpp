#include "conv2d/problem.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "conv2d/choice.h"
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

// Why check() throws, or "".
template <class Check>
std::string error_of(Check check) {
  try {
    check();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(Problem, SizesThatAreNoneOfAConvolutionAreRefused) {
  using Member = int64_t Conv2dProblem::*;
  const std::pair<Member, const char*> members[] = {
      {&Conv2dProblem::h, "input height is 0, expected 1 or more"},
      {&Conv2dProblem::w, "input width is 0"},
      {&Conv2dProblem::r, "filter height is 0"},
      {&Conv2dProblem::s, "filter width is 0"},
      {&Conv2dProblem::stride_h, "stride along the height is 0"},
      {&Conv2dProblem::stride_w, "stride along the width is 0"},
      {&Conv2dProblem::dilation_h, "dilation along the height is 0"},
      {&Conv2dProblem::dilation_w, "dilation along the width is 0"},
      {&Conv2dProblem::groups, "number of groups is 0"},
  };
  const Conv2dProblem p = parse_shape("a n2c3h4w5 k6r1s1").problem;
  EXPECT_EQ(error_of([&] { check_sizes(p); }), "");
  for (const auto& [member, text] : members) {
    Conv2dProblem bad = p;
    bad.*member = 0;
    EXPECT_NE(error_of([&] { check_sizes(bad); }).find(text), std::string::npos) << text;
    // Before any planner counts with it.
    EXPECT_NE(
        error_of([&] { choose({.problem = bad, .direction = Direction::kDgrad}); }).find(text),
        std::string::npos)
        << text;
  }
  Conv2dProblem bad = p;
  bad.pad_left = -1;
  EXPECT_NE(error_of([&] { check_sizes(bad); }).find("padding at the left is -1, expected 0"),
            std::string::npos);
  bad = p;
  bad.r = 6;
  EXPECT_NE(error_of([&] { check_sizes(bad); }).find("output height is -1"), std::string::npos);
}

// choose() leaves them to ATen, which gives them a shape.
TEST(Problem, NoKernelIsPlannedForAnEmptyTensor) {
  for (const Shape& shape : load_shapes("empty")) {
    EXPECT_EQ(error_of([&] { check_sizes(shape.problem); }), "");
    EXPECT_NE(error_of([&] { check_not_empty(shape.problem); }).find("no element"),
              std::string::npos);
    EXPECT_TRUE(choose({.problem = shape.problem}).candidates.front().is_aten());
  }
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
