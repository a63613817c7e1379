// Groups of four channels on the GPU: exact on small integers, of slices too, with a bias, and near
// infinities, with rows or channels innermost. Needs a GPU, not torch.
#include <gtest/gtest.h>

#include <cmath>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

Conv2dProblem with_rows(const char* text) {
  Conv2dProblem problem = parse_shape(std::string("a ") + text).problem;
  problem.type = DataType::kFloat32;
  problem.set_dense_strides(false);
  return problem;
}

class QuadGroups : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  }

  // Input gradients with a stride need channels innermost, of 16 bits and whole 16 bytes.
  static bool takes(const Conv2dProblem& p, Direction direction) {
    if (direction == Direction::kFprop || p.stride_h == 1) return true;
    return size_of(p.type) == 2 && p.input.c == 1 && p.c % 8 == 0 && p.output.w % 8 == 0;
  }

  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& bias_values, const Values& expected) const {
    check(p, direction, source_values, filter_, bias_values, expected);
  }

  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& filter_values, const Values& bias_values, const Values& expected) const {
    if (!takes(p, direction)) return;
    GatherCheck(p, direction, source_values, filter_values, bias_values)
        .run_plans("quad_groups", gpu(), expected);
  }

  void check_both(const Conv2dProblem& p) const {
    check(p, Direction::kFprop, input_, {}, reference_fprop(p, input_, filter_, {}));
    check(p, Direction::kDgrad, grad_output_, {}, reference_dgrad(p, grad_output_, filter_));
  }

  // The problem with rows innermost and, of 16 bits, with channels innermost.
  std::vector<Conv2dProblem> layouts() const {
    std::vector<Conv2dProblem> problems = {problem_};
    if (size_of(problem_.type) == 2) problems.emplace_back(problem_).set_dense_strides(true);
    return problems;
  }

  Conv2dProblem problem_ = GetParam().problem;
  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
  Values grad_output_ = small_integers(output_count(problem_), 4);
};

TEST_P(QuadGroups, AreExactOnSmallIntegers) {
  for (const Conv2dProblem& p : layouts()) check_both(p);
}

TEST_P(QuadGroups, TakeSlices) {
  for (Conv2dProblem& p : layouts()) {
    const bool rows = p.input.w == 1;
    p.input = rows ? even_rows_slice(p.c, p.h, p.w) : nhwc_strides(p.c + 8, p.h, p.w);
    p.output = rows ? even_rows_slice(p.k, p.p(), p.q()) : nhwc_strides(p.k + 4, p.p(), p.q());
    check_both(p);
    if (rows) continue;
    p.output = nhwc_strides(p.k + 8, p.p(), p.q());
    check_both(p);
  }
}

TEST_P(QuadGroups, AddABias) {
  const Values bias = small_integers(problem_.k, 3), input_bias = small_integers(problem_.c, 5);
  for (const Conv2dProblem& p : layouts()) {
    check(p, Direction::kFprop, input_, bias, reference_fprop(p, input_, filter_, bias));
    check(p, Direction::kDgrad, grad_output_, input_bias,
          reference_dgrad_with_bias(p, grad_output_, filter_, input_bias));
  }
}

// In front of and behind the output an input gradient has no products at all.
TEST_P(QuadGroups, MultiplyInfiniteWeightsWithTheOutputAlone) {
  Values filter = filter_;
  for (size_t i = 3; i < filter.size(); i += 11) filter[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  for (const Conv2dProblem& p : layouts()) {
    if (p.stride_h == 1) continue;
    check(p, Direction::kDgrad, grad_output_, filter, {}, reference_dgrad(p, grad_output_, filter));
  }
}

TEST_P(QuadGroups, TellInfinitiesFromNan) {
  // Of one sign but for some, so that among the sums are infinities of both signs and NaN.
  Values grad_output(grad_output_.size(), INFINITY), filter = filter_;
  for (size_t i = 5; i < grad_output.size(); i += 97) grad_output[i] = -INFINITY;
  for (size_t i = 3; i < grad_output.size(); i += 2) grad_output[i] = 1;
  for (double& weight : filter) weight = std::abs(weight) + 1;
  for (const Conv2dProblem& p : layouts()) {
    check(p, Direction::kDgrad, grad_output, filter, {}, reference_dgrad(p, grad_output, filter));
  }
}

TEST_P(QuadGroups, LetInfinitiesReachTheirTapsAlone) {
  Values input = input_, grad_output = grad_output_;
  for (const Conv2dProblem& p : layouts()) {
    make_some_not_finite(input, p.n, p.c, p.h, p.w);
    make_some_not_finite(grad_output, p.n, p.k, p.p(), p.q());
    check(p, Direction::kFprop, input, {}, reference_fprop(p, input, filter_, {}));
    check(p, Direction::kDgrad, grad_output, {}, reference_dgrad(p, grad_output, filter_));
  }
}

// Of each filter; of rows and groups that fill no tile, tiles of several, and paddings of all
// sides.
INSTANTIATE_TEST_SUITE_P(
    Shapes, QuadGroups,
    ::testing::ValuesIn(
        typed_shapes({"square         n2c16h9w14 k16r3s3 pad=1,1,1,1 groups=4",
                      "wide           n1c8h5w94 k8r3s3 pad=1,1,1,1 groups=2",
                      "many_groups    n1c148h6w6 k148r3s3 pad=1,1,1,1 groups=37",
                      "strided        n2c24h13w62 k24r3s3 stride=2,2 pad=1,1,1,1 groups=6",
                      "strided_pads   n2c8h12w10 k8r3s3 stride=2,2 pad=0,2,1,0 groups=2",
                      "up             n2c128h14w12 k128r4s4 stride=2,2 pad=1,1,1,1 groups=32",
                      "up_wide        n1c16h10w130 k16r4s4 stride=2,2 pad=1,1,1,1 groups=4",
                      "up_pads        n1c8h7w16 k8r4s4 stride=2,2 pad=2,0,1,3 groups=2",
                      "up_far         n1c72h41w38 k72r4s4 stride=2,2 pad=5,3,1,2 groups=18",
                      "pads           n1c8h4w3 k8r3s3 pad=2,0,1,2 groups=2",
                      "one_pixel      n3c8h1w2 k8r3s3 pad=1,1,1,1 groups=2"},
                     kSm90Types)),
    name_of_typed);

// Of chips that have it, and where the channels of a pixel are whole 16 bytes.
TEST(QuadGroupsPlan, TakesTheMatrixInstructionForChannelsInnermost) {
  const auto multiplies = [](const Conv2dProblem& p, const Chip& chip = h200()) {
    const auto plans = timed_plans_of("quad_groups", {.problem = p, .chip = chip});
    return plans.size() == 1 && plans.front().says("fprop products ");
  };
  const Conv2dProblem wide = channels_last_problem("n1c16h8w8 k16r3s3 pad=1,1,1,1 groups=4");
  EXPECT_TRUE(multiplies(wide));
  Chip oldest = h200();
  oldest.compute_capability = 75;
  EXPECT_FALSE(multiplies(wide, oldest));
  EXPECT_FALSE(multiplies(channels_last_problem("n1c12h8w8 k12r3s3 pad=1,1,1,1 groups=3")));
  EXPECT_FALSE(multiplies(with_rows("n1c16h8w8 k16r3s3 pad=1,1,1,1 groups=4")));
}

TEST(QuadGroupsPlan, DeclinesWithAReason) {
  const auto reason = [](const Conv2dProblem& p, Direction direction = Direction::kFprop) {
    for (const Family* family : families()) {
      if (family->name != "quad_groups") continue;
      return family->ask({.problem = p, .direction = direction}).declined;
    }
    return std::string("no such family");
  };
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=2")), "");
  EXPECT_EQ(reason(channels_last_problem("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=2")), "");
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=2"), Direction::kWgrad),
            "it computes no weight gradients");
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=4")),
            "its groups are not of four input and four output channels");
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r5s5 pad=1,1,1,1 groups=2")),
            "its filter is neither 3x3 with a stride of 1 or 2 nor 4x4 with a stride of 2");
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r3s3 groups=2")), "the padding on the left is not 1");
  EXPECT_EQ(reason(with_rows("n1c8h8w8 k8r3s3 stride=2,2 pad=1,1,1,1 groups=2"), Direction::kDgrad),
            "it is an input gradient with a stride, without channels innermost of 16 bits");
  EXPECT_EQ(reason(channels_last_problem("n1c12h8w8 k12r3s3 stride=2,2 pad=1,1,1,1 groups=3"),
                   Direction::kDgrad),
            "it is an input gradient with a stride, and pixels are not of whole 16 bytes");
  EXPECT_EQ(reason(channels_last_problem("n1c8h8w8 k8r3s3 stride=2,2 groups=2"), Direction::kDgrad),
            "");
  EXPECT_EQ(reason(with_rows("n1c8h8w9 k8r3s3 stride=2,2 pad=1,1,1,1 groups=2")),
            "rows are not of whole pairs of pixels");
  EXPECT_EQ(
      reason(channels_last_problem("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=2", DataType::kFloat32)),
      "channels are innermost, but not of 16 bits");
}

}  // namespace
}  // namespace haloconv::testing
