// Depthwise layers whose threads read their windows themselves: exact on small integers, of slices
// too, with what is fused, and near infinities, with rows or channels innermost. Needs a GPU, not
// torch; what the kernels take does not.
#include <gtest/gtest.h>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

constexpr const char* kName = "depthwise_direct";

// Of those that a family takes, both directions.
class DepthwiseDirect : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "needs a GPU";
  }

  struct Fused {
    Values scale{}, shift{}, residual{};
    Activation activation;
  };

  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& bias_values, const Fused& with, const Values& expected) const {
    const GatherCheck call(p, direction, source_values, filter_, bias_values);
    const FusedOperands fused(p, direction, with.scale, with.shift, with.residual, with.activation);
    const auto plans = plans_of(kName, {.problem = p, .direction = direction, .chip = gpu()});
    EXPECT_EQ(plans.empty(), direction == Direction::kDgrad && p.stride_h != 1) << p;
    for (const FamilyPlan& of : plans) call.run(of, expected, fused.fusion());
  }

  void check_both(const Conv2dProblem& p, const Values& input, const Values& grad_output) const {
    check(p, Direction::kFprop, input, {}, {}, reference_fprop(p, input, filter_, {}));
    check(p, Direction::kDgrad, grad_output, {}, {}, reference_dgrad(p, grad_output, filter_));
  }

  // Those of the problem with rows or channels innermost that the kernels take.
  std::vector<Conv2dProblem> layouts() const {
    std::vector<Conv2dProblem> taken;
    for (const bool channels_last : {false, true}) {
      Conv2dProblem p = problem_;
      p.set_dense_strides(channels_last);
      if (!plans_of(kName, {.problem = p, .chip = gpu()}).empty()) taken.push_back(p);
    }
    EXPECT_FALSE(taken.empty()) << problem_;
    return taken;
  }

  Conv2dProblem problem_ = GetParam().problem;
  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
  Values grad_output_ = small_integers(output_count(problem_), 4);
};

TEST_P(DepthwiseDirect, IsExactOnSmallIntegers) {
  for (const Conv2dProblem& p : layouts()) check_both(p, input_, grad_output_);
}

// And filters whose channels are innermost.
TEST_P(DepthwiseDirect, TakesSlices) {
  for (Conv2dProblem& p : layouts()) {
    const bool rows = p.input.w == 1;
    // Where channels fill whole 16 bytes, so do those of the larger tensors.
    const bool whole = p.c % 8 == 0;
    p.input = rows ? even_rows_slice(p.c, p.h, p.w) : nhwc_strides(p.c + (whole ? 8 : 3), p.h, p.w);
    p.output = rows ? even_rows_slice(p.k, p.p(), p.q())
                    : nhwc_strides(p.k + (whole ? 16 : 5), p.p(), p.q());
    if (whole) p.filter = filter_by_taps(p);
    check_both(p, input_, grad_output_);
  }
}

// Of a ReLU, which is unrolled over results, and of another activation, which is not everywhere.
TEST_P(DepthwiseDirect, ComputesAnEpilogue) {
  const Values bias = small_integers(problem_.k, 3), scale = small_integers(problem_.k, 5),
               shift = small_integers(problem_.k, 6);
  for (const Conv2dProblem& p : layouts()) {
    const Values sums = reference_fprop(p, input_, filter_, bias);
    check(p, Direction::kFprop, input_, bias, {}, sums);
    for (const Activation& activation :
         {Activation{ActivationKind::kRelu}, Activation{ActivationKind::kClamp, -3, 40}}) {
      check(p, Direction::kFprop, input_, bias, {.activation = activation},
            reference_fused(p, Direction::kFprop, sums, {}, {}, {}, activation));
      const Values residual = small_integers(output_count(p), 7);
      check(p, Direction::kFprop, input_, bias, {scale, shift, residual, activation},
            reference_fused(p, Direction::kFprop, sums, scale, shift, residual, activation));
      const Values gradient = reference_dgrad_with_bias(p, grad_output_, filter_, bias);
      check(p, Direction::kDgrad, grad_output_, bias, {.activation = activation},
            reference_fused(p, Direction::kDgrad, gradient, {}, {}, {}, activation));
    }
  }
}

TEST_P(DepthwiseDirect, LetsInfinitiesReachTheirTapsAlone) {
  Values input = input_, grad_output = grad_output_;
  make_some_not_finite(input, problem_.n, problem_.c, problem_.h, problem_.w);
  make_some_not_finite(grad_output, problem_.n, problem_.k, problem_.p(), problem_.q());
  for (const Conv2dProblem& p : layouts()) check_both(p, input, grad_output);
}

// Of each filter; of rows and squares that fill no tile, several tiles of columns and of channels,
// and paddings of all sides.
INSTANTIATE_TEST_SUITE_P(Shapes, DepthwiseDirect,
                         ::testing::ValuesIn(typed_shapes(
                             {"square         n2c5h9w14 k5r3s3 pad=1,1,1,1 groups=5",
                              "wide           n1c3h5w94 k3r3s3 pad=1,1,1,1 groups=3",
                              "strided        n2c21h13w62 k21r3s3 stride=2,2 pad=1,1,1,1 groups=21",
                              "strided_pads   n2c7h12w10 k7r3s3 stride=2,2 pad=0,2,1,0 groups=7",
                              "up             n2c21h14w12 k21r4s4 stride=2,2 pad=1,1,1,1 groups=21",
                              "up_wide        n1c3h10w130 k3r4s4 stride=2,2 pad=1,1,1,1 groups=3",
                              "up_pads        n1c5h7w16 k5r4s4 stride=2,2 pad=2,0,1,3 groups=5",
                              "fives          n2c13h9w11 k13r5s5 pad=2,2,2,2 groups=13",
                              "fives_strided  n2c9h12w9 k9r5s5 stride=2,2 pad=2,1,1,2 groups=9",
                              "sevens         n1c6h9w9 k6r7s7 pad=3,3,3,3 groups=6",
                              "many_channels  n1c150h5w7 k150r3s3 pad=1,1,1,1 groups=150",
                              "one_pixel      n3c2h1w2 k2r3s3 pad=1,1,1,1 groups=2"},
                             kSm90Types)),
                         name_of_typed);

// Channels that fill whole 16 bytes, of 16-bit types: of each filter and stride; of tiles that lie
// beyond the image below and on the right, of several groups of rows and blocks of channels, whose
// last ones are not full, and paddings of all sides.
INSTANTIATE_TEST_SUITE_P(
    WholeUnits, DepthwiseDirect,
    ::testing::ValuesIn(
        typed_shapes({"threes         n2c16h9w14 k16r3s3 pad=1,1,1,1 groups=16",
                      "threes_tall    n3c232h37w5 k232r3s3 pad=1,1,1,1 groups=232",
                      "threes_pads    n1c8h6w7 k8r3s3 pad=0,2,2,1 groups=8",
                      "threes_strided n2c32h15w13 k32r3s3 stride=2,2 pad=1,1,1,1 groups=32",
                      "strided_rows   n1c240h40w6 k240r3s3 stride=2,2 pad=0,2,1,0 groups=240",
                      "fives          n2c24h7w7 k24r5s5 pad=2,2,2,2 groups=24",
                      "fives_tall     n3c168h35w6 k168r5s5 pad=1,3,0,2 groups=168",
                      "fives_strided  n2c40h14w15 k40r5s5 stride=2,2 pad=2,2,2,2 groups=40",
                      "fives_rows     n1c104h38w4 k104r5s5 stride=2,2 pad=2,1,1,2 groups=104",
                      "one_pixel      n3c8h1w2 k8r3s3 pad=1,1,1,1 groups=8"},
                     std::span(kSm90Types).subspan(1))),
    name_of_typed);

TEST(DepthwiseDirectPlan, DeclinesWithAReason) {
  const auto reason = [](const std::string& text, bool channels_last,
                         Direction direction = Direction::kFprop,
                         DataType type = DataType::kFloat32) {
    Conv2dProblem p = parse_shape("a " + text).problem;
    p.type = type;
    p.set_dense_strides(channels_last);
    for (const Family* family : families()) {
      if (family->name != kName) continue;
      return family->ask({.problem = p, .direction = direction}).declined;
    }
    return std::string("no such family");
  };
  const std::string square = "n1c6h8w8 k6r3s3 pad=1,1,1,1 groups=6";
  EXPECT_EQ(reason(square, true), "");
  EXPECT_EQ(reason(square, true, Direction::kDgrad), "");
  EXPECT_EQ(reason(square, true, Direction::kWgrad), "it computes no weight gradients");
  const std::string strided = "n1c6h8w8 k6r3s3 stride=2,2 pad=1,1,1,1 groups=6";
  EXPECT_EQ(reason(strided, false), "");
  EXPECT_EQ(reason(strided, false, Direction::kFprop, DataType::kBFloat16),
            "rows are innermost, but not of float32");
  EXPECT_EQ(reason(strided, true, Direction::kFprop, DataType::kBFloat16), "");
  EXPECT_EQ(reason("n1c6h8w8 k6r3s3 pad=1,1,1,1 groups=3", false),
            "its groups are not of one input and one output channel");
  EXPECT_EQ(reason(square, false), "its filter is neither 3x3 nor 4x4 with a stride of 2");
  EXPECT_EQ(reason("n1c6h8w8 k6r5s3 pad=1,1,1,1 groups=6", true),
            "it has none of the filters and strides that kernels are built for");
  EXPECT_EQ(reason("n1c6h8w8 k6r3s3 stride=2,2 groups=6", false),
            "the padding on the left is not 1");
  EXPECT_EQ(reason(strided, true, Direction::kDgrad), "it is an input gradient with a stride");
  EXPECT_EQ(reason("n1c6h8w9 k6r3s3 stride=2,2 pad=1,1,1,1 groups=6", false),
            "rows are not of whole pairs of pixels");
  EXPECT_EQ(reason("n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=8", true),
            "channels fill whole 16 bytes, but not of 16-bit values");
  const std::string whole = "n1c8h8w8 k8r3s3 pad=1,1,1,1 groups=8";
  EXPECT_EQ(reason(whole, true, Direction::kDgrad, DataType::kBFloat16), "");
  EXPECT_EQ(
      reason("n1c8h8w8 k8r7s7 pad=3,3,3,3 groups=8", true, Direction::kFprop, DataType::kFloat16),
      "it has none of the filters and strides that kernels are built for");
  EXPECT_EQ(reason("n600000000c3h7w7 k3r3s3 pad=1,1,1,1 groups=3", true), "its tiles are too many");
}

}  // namespace
}  // namespace haloconv::testing
