// The last layers of networks with channels innermost on the GPU: exact on small integers, of
// slices and of transposed filters too, with a bias, and near infinities. Needs a GPU, not torch.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

class Heads : public Sm80ChannelsLast {
 protected:
  // The GPU, and one on which each block has pixels several times.
  static std::vector<Chip> chips() {
    Chip few = gpu();
    few.multiprocessors = 1;
    return {gpu(), few};
  }

  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& bias_values, const Values& expected) const {
    const GatherCheck call(p, direction, source_values, filter_, bias_values);
    for (const Chip& chip : chips()) call.run_plans("heads", chip, expected);
  }

  void check_both(const Conv2dProblem& p) const {
    check(p, Direction::kFprop, input_, {}, reference_fprop(p, input_, filter_, {}));
    check(p, Direction::kDgrad, grad_output_, {}, reference_dgrad(p, grad_output_, filter_));
  }

  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
  Values grad_output_ = small_integers(output_count(problem_), 4);
};

TEST_P(Heads, AreExactOnSmallIntegers) { check_both(problem_); }

TEST_P(Heads, TakeSlicesOfChannels) {
  Conv2dProblem p = problem_;
  p.input = nhwc_strides(p.c + 8, p.h, p.w);
  p.output = nhwc_strides(p.k + 3, p.p(), p.q());
  check_both(p);
}

TEST_P(Heads, TakeAFilterThatLiesTransposed) {
  Conv2dProblem p = problem_;
  p.filter = {.n = 1, .c = p.k, .h = 1, .w = 1};
  check_both(p);
}

TEST_P(Heads, AddABias) {
  const Conv2dProblem& p = problem_;
  const Values bias = small_integers(p.k, 3), input_bias = small_integers(p.c, 5);
  check(p, Direction::kFprop, input_, bias, reference_fprop(p, input_, filter_, bias));
  check(p, Direction::kDgrad, grad_output_, input_bias,
        reference_dgrad_with_bias(p, grad_output_, filter_, input_bias));
}

TEST_P(Heads, LetInfinitiesReachTheirPixelsAlone) {
  const Conv2dProblem& p = problem_;
  Values input = input_, grad_output = grad_output_;
  make_some_not_finite(input, p.n, p.c, p.h, p.w);
  make_some_not_finite(grad_output, p.n, p.k, p.p(), p.q());
  check(p, Direction::kFprop, input, {}, reference_fprop(p, input, filter_, {}));
  check(p, Direction::kDgrad, grad_output, {}, reference_dgrad(p, grad_output, filter_));
}

TEST_P(Heads, WeightGradientsAreExactOnSmallIntegers) {
  for (const Chip& chip : chips()) check_wgrad("heads", problem_, chip);
}

TEST_P(Heads, WeightGradientsTakeSlicesAndTransposedFilters) {
  Conv2dProblem p = problem_;
  p.input = nhwc_strides(p.c + 8, p.h, p.w);
  p.output = nhwc_strides(p.k + 3, p.p(), p.q());
  p.filter = {.n = 1, .c = p.k, .h = 1, .w = 1};
  for (const Chip& chip : chips()) check_wgrad("heads", p, chip);
}

TEST_P(Heads, WeightGradientsLetInfinitiesReachTheirChannelsAlone) {
  check_wgrad_near_infinities("heads", problem_, gpu());
  check_wgrad_of_many_infinities("heads", problem_, gpu());
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

INSTANTIATE_TEST_SUITE_P(
    Shapes, Heads,
    ::testing::ValuesIn(typed_shapes({"one n1c8h1w1 k1r1s1", "two n2c64h37w29 k2r1s1",
                                      "three n3c72h9w50 k3r1s1", "four n1c320h31w33 k4r1s1",
                                      "deep n2c1024h7w9 k4r1s1", "many n5c24h64w64 k4r1s1"},
                                     kTypes)),
    name_of_typed);

// Channels that fill whole 16 bytes in float32 alone.
INSTANTIATE_TEST_SUITE_P(OfFloat32, Heads,
                         ::testing::ValuesIn(typed_shapes({"few n3c4h41w23 k3r1s1",
                                                           "odd n2c76h19w31 k2r1s1"},
                                                          std::span(kTypes).first(1))),
                         name_of_typed);

TEST(HeadsPlan, DeclinesWithAReason) {
  const auto reason = [](const char* text, DataType type, Direction direction) {
    for (const Family* family : families()) {
      if (family->name != "heads") continue;
      return family->ask({.problem = channels_last_problem(text, type), .direction = direction})
          .declined;
    }
    return std::string("no such family");
  };
  const Direction fprop = Direction::kFprop;
  const DataType bf16 = DataType::kBFloat16;
  EXPECT_EQ(reason("n1c64h8w8 k2r1s1", bf16, fprop), "");
  EXPECT_EQ(reason("n1c64h8w8 k2r1s1", bf16, Direction::kDgrad), "");
  EXPECT_EQ(reason("n1c64h8w8 k2r1s1", bf16, Direction::kWgrad), "");
  EXPECT_EQ(reason("n1c12h8w8 k2r1s1", DataType::kFloat32, fprop), "");
  EXPECT_EQ(reason("n1c64h8w8 k2r1s1", DataType::kFloat64, fprop),
            "it computes in float32 and types of 16 bits alone");
  EXPECT_EQ(reason("n1c64h8w8 k5r1s1", bf16, fprop),
            "there are groups, or more than 4 output channels");
  EXPECT_EQ(reason("n1c12h8w8 k2r1s1", bf16, fprop),
            "input channels fill no whole 16 bytes, or are more than 1024");
  EXPECT_EQ(reason("n1c64h8w8 k2r1s1 pad=1,1,1,1", bf16, fprop),
            "its filter has more than one tap, a stride or padding");
}

}  // namespace
}  // namespace haloconv::testing
