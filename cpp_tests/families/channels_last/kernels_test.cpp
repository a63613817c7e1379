// fprop and dgrad with channels innermost on the GPU: every plan exact on small integers, of slices
// too, with an epilogue, near infinities; and float32's factors rounded to nearest. Needs a Hopper
// GPU, not torch.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class ChannelsLast : public HopperChannelsLast {
 protected:
  // What plans are made for.
  virtual Chip chip() const { return gpu(); }

  // Of fprop or dgrad; with `fusion`, a bias too.
  void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
             const Values& filter_values, const Values& bias_values, const Fusion& fusion,
             const Values& expected) const {
    const GatherCheck call(p, direction, source_values, filter_values, bias_values);
    const std::vector<FamilyPlan> plans =
        plans_of("channels_last", {.problem = p, .direction = direction, .chip = chip()});
    EXPECT_FALSE(plans.empty()) << p;
    for (const FamilyPlan& of : plans) {
      if (!bias_values.empty() && !of.plan->takes_bias) continue;
      if (!fusion.is_none() && !of.plan->takes_fusion) continue;
      call.run(of, expected, fusion);
      if (HasFailure()) return;
    }
  }

  void check_small_integers(const Conv2dProblem& p) const {
    const Values input = small_integers(input_count(p), 1);
    const Values filter = small_integers(filter_count(p), 2);
    const Values grad_output = small_integers(output_count(p), 4);
    check(p, Direction::kFprop, input, filter, {}, {}, reference_fprop(p, input, filter, {}));
    check(p, Direction::kDgrad, grad_output, filter, {}, {},
          reference_dgrad(p, grad_output, filter));
  }

  void check_near_infinities() const {
    const Conv2dProblem& p = problem_;
    Values input = small_integers(input_count(p), 1);
    const Values filter = small_integers(filter_count(p), 2);
    make_some_not_finite(input, p.n, p.c, p.h, p.w);
    check(p, Direction::kFprop, input, filter, {}, {}, reference_fprop(p, input, filter, {}));
    Values grad_output = small_integers(output_count(p), 4);
    make_some_not_finite(grad_output, p.n, p.k, p.p(), p.q());
    check(p, Direction::kDgrad, grad_output, filter, {}, {},
          reference_dgrad(p, grad_output, filter));
  }

  struct Operands {
    bool bias = false, scale = false, shift = false, residual = false;
    bool far_from_zero = false;  // all results are 0, or 32 and more
  };

  void check_epilogue(Direction direction, const Operands& has, const Activation& activation) {
    const Conv2dProblem& p = problem_;
    const bool fprop = direction == Direction::kFprop;
    const int64_t channels = result_channels(p, direction);
    const auto given = [](bool has, const Values& values) { return has ? values : Values(); };
    const auto numbers = [&](int64_t count, int seed, double unit) {
      Values values = small_integers(count, seed);
      if (!has.far_from_zero) return values;
      for (double& value : values) value = std::floor(std::abs(value) * unit);
      return values;
    };
    const Values filter = numbers(filter_count(p), 2, 1.0 / 3);
    const Values source = numbers(fprop ? input_count(p) : output_count(p), 1, 32);
    const Values bias = given(has.bias, numbers(channels, 3, 32));
    const Values scale = given(has.scale, numbers(channels, 5, 1));
    const Values shift = given(has.shift, numbers(channels, 6, 32));
    const Values residual =
        given(has.residual, numbers(fprop ? output_count(p) : input_count(p), 7, 32));
    const Values no_bias(static_cast<size_t>(channels), 0);
    const Values sums =
        fprop ? reference_fprop(p, source, filter, bias)
              : reference_dgrad_with_bias(p, source, filter, has.bias ? bias : no_bias);
    const FusedOperands fused(p, direction, scale, shift, residual, activation);
    check(p, direction, source, filter, bias, fused.fusion(),
          reference_fused(p, direction, sums, scale, shift, residual, activation));
  }
};

TEST_P(ChannelsLast, IsExactOnSmallIntegers) { check_small_integers(problem_); }

TEST_P(ChannelsLast, TakesSlices) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  p.output = channels_last_slice(p.k, p.p(), p.q());
  check_small_integers(p);
}

// One factor and one offset a channel, and bounds: the kernels' quick way.
TEST_P(ChannelsLast, ComputesAnEpilogueOfBounds) {
  const auto clamp = [](double low, double high) {
    return Activation{.kind = ActivationKind::kClamp, .a = low, .b = high};
  };
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    check_epilogue(direction, {.bias = true}, {ActivationKind::kRelu});
    check_epilogue(direction, {.bias = true, .residual = true}, {ActivationKind::kNone});
    check_epilogue(direction, {.scale = true, .shift = true, .residual = true}, clamp(-9, 20));
    check_epilogue(direction, {.scale = true}, {ActivationKind::kRelu});
  }
}

// Of 0, and of 32 and more, these activations are numbers of every type, sigmoid's in float32 up to
// its last bit.
TEST_P(ChannelsLast, ComputesAnEpilogueOfSmoothActivations) {
  const Direction fprop = Direction::kFprop;
  check_epilogue(fprop, {.bias = true, .far_from_zero = true}, {ActivationKind::kGelu});
  if (size_of(problem_.type) == 2) {
    check_epilogue(fprop, {.scale = true, .shift = true, .far_from_zero = true},
                   {ActivationKind::kSigmoid});
  }
  check_epilogue(Direction::kDgrad, {.bias = true, .far_from_zero = true}, {ActivationKind::kGelu});
}

// Any other, and a bias before a scale.
TEST_P(ChannelsLast, ComputesAnyEpilogue) {
  const Activation leaky_relu = {.kind = ActivationKind::kLeakyRelu, .a = 0.5};
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    check_epilogue(direction, {.bias = true, .scale = true, .shift = true, .residual = true},
                   {ActivationKind::kRelu});
    check_epilogue(direction, {.shift = true, .residual = true}, leaky_relu);
  }
}

TEST_P(ChannelsLast, LetsInfinitiesReachTheirTapsAlone) { check_near_infinities(); }

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLast,
                         ::testing::ValuesIn(typed_shapes("eights", kSm90Types)), name_of_typed);

std::vector<TypedShape> typed_texts(
    std::initializer_list<std::pair<const char*, const char*>> texts,
    std::span<const DataType> types) {
  std::vector<TypedShape> shapes;
  for (const auto& [name, text] : texts) {
    for (const DataType type : types) {
      std::ostringstream full_name;
      full_name << name << '_' << type;
      shapes.push_back({full_name.str(), parse_shape(std::string("a ") + text).problem});
      shapes.back().problem.type = type;
    }
  }
  return shapes;
}

// Filters as wide as their stride, whose input gradients are folded where tensors are dense.
INSTANTIATE_TEST_SUITE_P(
    Folds, ChannelsLast,
    ::testing::ValuesIn(typed_texts({{"twos", "n2c8h16w20 k24r2s2 stride=2,2"},
                                     {"wide_twos", "n3c72h12w32 k40r2s2 stride=2,2"},
                                     {"threes", "n2c16h9w18 k16r3s3 stride=3,3"},
                                     {"fours_in_a_row", "n2c40h1w32 k16r1s4 stride=1,4"},
                                     {"padded_above", "n2c24h15w16 k8r3s2 stride=2,2 pad=1,1,0,0"}},
                                    kSm90Types)),
    name_of_typed);

// Filters that threads put into shared memory.
INSTANTIATE_TEST_SUITE_P(Laid, ChannelsLast,
                         ::testing::ValuesIn(typed_texts({{"forty", "n3c40h9w11 k136r1s1"},
                                                          {"least", "n2c8h5w7 k24r1s1"},
                                                          {"sector", "n2c16h5w7 k200r1s1"}},
                                                         std::span(kSm90Types).last(2))),
                         name_of_typed);

// Where few blocks go down strips of many rows, and from strip to strip.
class ChannelsLastStrips : public ChannelsLast {
 protected:
  Chip chip() const override {
    Chip chip = gpu();
    chip.multiprocessors = 3;
    return chip;
  }
};

TEST_P(ChannelsLastStrips, AreExactOnSmallIntegers) { check_small_integers(problem_); }

TEST_P(ChannelsLastStrips, AreFused) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    check_epilogue(direction, {.bias = true, .residual = true}, {ActivationKind::kRelu});
    check_epilogue(direction, {.bias = true, .scale = true, .shift = true, .residual = true},
                   {.kind = ActivationKind::kLeakyRelu, .a = 0.5});
  }
}

TEST_P(ChannelsLastStrips, LetInfinitiesReachTheirTapsAlone) { check_near_infinities(); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, ChannelsLastStrips,
    ::testing::ValuesIn(typed_texts({{"wide", "n1c16h11w270 k40r3s3 pad=1,1,1,1"},
                                     {"long", "n1c32h60w20 k16r3s3"},
                                     {"images", "n7c64h10w29 k24r3s3 pad=1,0,2,1"},
                                     {"deep", "n3c8h9w60 k328r2s3"},
                                     {"tiles", "n2c16h20w70 k200r3s3 pad=1,1,1,1"},
                                     {"far", "n1c32h20w40 k64r5s9 dil=2,3 pad=4,4,12,12"},
                                     {"apart", "n2c32h22w31 k48r5s5 dil=3,2 pad=6,6,4,4"},
                                     {"fours", "n1c24h14w131 k32r4s2"}},
                                    kSm90Types)),
    name_of_typed);

// A residual that passes through the ring: in plans that give a block several tiles, with tiles
// that are not full, and by blocks of 8 columns.
class ChannelsLastResidual : public ChannelsLast {};

TEST_P(ChannelsLastResidual, IsAddedBeforeEachQuickActivation) {
  const Direction fprop = Direction::kFprop;
  check_epilogue(fprop, {.residual = true}, {ActivationKind::kNone});
  check_epilogue(fprop, {.bias = true, .residual = true}, {ActivationKind::kRelu});
  check_epilogue(fprop, {.scale = true, .shift = true, .residual = true},
                 {.kind = ActivationKind::kHardtanh, .a = -9, .b = 20});
  // Of 0, and of 32 and more, these are the same number.
  for (const auto kind :
       {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh}) {
    check_epilogue(fprop, {.bias = true, .residual = true, .far_from_zero = true}, {kind});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rings, ChannelsLastResidual,
    ::testing::ValuesIn(typed_texts({{"tiles", "n32c16h28w28 k256r1s1"},
                                     {"steps", "n48c72h28w28 k128r1s1"},
                                     {"odd", "n3c72h7w9 k200r1s1"},
                                     {"least", "n1c8h3w3 k8r1s1"},
                                     {"strided", "n16c24h57w55 k136r1s1 stride=2,2"},
                                     {"squares", "n20c8h30w27 k136r3s3 pad=1,1,1,1"},
                                     {"sevens", "n70c24h7w7 k64r3s3 pad=1,1,1,1"}},
                                    std::span(kSm90Types).last(2))),
    name_of_typed);

// Of several tiles a block, with which warpgroups take turns: as many for each and not, of one tap
// and of several, by windows, with phases whose results are zeros, of which idle blocks write all
// or none, and with a phase of which a part comes first.
class ChannelsLastAlternating : public ChannelsLast {};

TEST_P(ChannelsLastAlternating, AreExactOnSmallIntegers) { check_small_integers(problem_); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, ChannelsLastAlternating,
    ::testing::ValuesIn(typed_texts({{"steps", "n34c72h28w28 k136r1s1"},
                                     {"zeros", "n50c72h55w56 k136r1s1 stride=2,2"},
                                     {"idle", "n8c264h14w14 k1536r1s1 stride=2,2"},
                                     {"phases", "n24c40h55w56 k40r3s3 stride=2,2 pad=1,1,1,1"},
                                     {"windows", "n40c64h28w28 k64r3s3 pad=1,1,1,1"},
                                     {"moved", "n40c264h21w21 k16r3s3 stride=2,2 pad=1,1,1,1"}},
                                    std::span(kSm90Types).last(1))),
    name_of_typed);
INSTANTIATE_TEST_SUITE_P(Turned, ChannelsLastAlternating,
                         ::testing::ValuesIn(typed_texts({{"steps", "n34c72h28w28 k136r1s1"},
                                                          {"zeros",
                                                           "n30c72h55w56 k136r1s1 stride=2,2"}},
                                                         std::span(kSm90Types).first(1))),
                         name_of_typed);

// Filters that stay, of blocks that keep to a tile of channels, and of blocks that go on to the
// next: with a ring longer than a tile has units, and a shorter one.
class ChannelsLastStaying : public ChannelsLast {
 protected:
  Chip chip() const override {
    Chip chip = gpu();
    chip.multiprocessors = 4;
    return chip;
  }
};

TEST_P(ChannelsLastStaying, AreExactOnSmallIntegers) { check_small_integers(problem_); }

TEST_P(ChannelsLastStaying, LetInfinitiesReachTheirTapsAlone) { check_near_infinities(); }

INSTANTIATE_TEST_SUITE_P(Shapes, ChannelsLastStaying,
                         ::testing::ValuesIn(typed_texts({{"together", "n1c136h19w21 k520r1s1"},
                                                          {"changes", "n1c384h19w21 k520r1s1"},
                                                          {"least", "n1c8h3w3 k8r1s1"}},
                                                         std::span(kSm90Types).last(2))),
                         name_of_typed);

// A single product by 1: what a factor is rounded to is what comes out. Ties go away from zero, or
// to even: both are nearest.
TEST(ChannelsLastTf32, RoundsFactorsToNearest) {
  if (!has_gpu() || gpu().compute_capability != 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  Conv2dProblem p = parse_shape("a n1c4h8w16 k4r1s1").problem;
  p.set_dense_strides(true);
  constexpr double kStep = 1.0 / 1024;  // of TF32, from 1 to 2
  Values input(input_count(p), 0), filter(filter_count(p), 0), expected(output_count(p), 0);
  const int64_t pixels = p.h * p.w;
  for (int64_t i = 0; i < pixels; ++i) {
    // Quarters of a step but ties.
    const double part = i % 4 == 2 ? 0.625 : static_cast<double>(i % 4) / 4;
    const double sign = i % 8 < 4 ? 1 : -1;
    input[i] = sign * (1 + (static_cast<double>(i) + part) * kStep);
    expected[i] = sign * (1 + (static_cast<double>(i) + (part > 0.5 ? 1 : 0)) * kStep);
  }
  filter[0] = 1;
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    GatherCheck(p, direction, input, filter).run_plans("channels_last", gpu(), expected);
  }
}

}  // namespace
}  // namespace haloconv::testing
