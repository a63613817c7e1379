// First layers on the GPU: every plan exact on small integers, near infinities and NaN, with an
// input that is a slice of another or has its rows innermost, and with an epilogue. Needs a Hopper
// GPU, not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "conv2d/geometry/integers.h"
#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

class FirstLayers : public HopperChannelsLast {
 protected:
  // On the whole chip, and on few multiprocessors, where each block has several tiles.
  template <class Check>
  void for_each_plan(const Conv2dProblem& p, Direction direction, bool with_bias, Check check) {
    Chip few = gpu();
    few.multiprocessors = 2;
    for (const Chip* chip : std::initializer_list<const Chip*>{&gpu(), &few}) {
      for (const FamilyPlan& of : plans_of(
               "first_layers",
               {.problem = p, .direction = direction, .chip = *chip, .with_bias = with_bias})) {
        check(of);
        if (HasFailure()) return;
      }
    }
  }

  void check_fprop(const Conv2dProblem& p, const Fusion& fusion, const Values& expected) {
    const GatherCheck call(p, Direction::kFprop, input_, filter_,
                           fusion.is_none() ? Values() : bias_);
    for_each_plan(p, Direction::kFprop, false,
                  [&](const FamilyPlan& of) { call.run(of, expected, fusion); });
  }

  void check_wgrad(const Conv2dProblem& p) {
    const WgradCheck check(p, grad_output_, input_);
    for (const bool with_bias : {false, true}) {
      for_each_plan(p, Direction::kWgrad, with_bias,
                    [&](const FamilyPlan& of) { check.run(of, with_bias); });
    }
  }

  // One in the first tap column or in the last, also near infinities of grad_output, and some.
  void check_dgrad_of_infinite_weights() {
    const Conv2dProblem& p = problem_;
    const Values finite = filter_;
    filter_.front() = INFINITY;
    check_dgrad(p);
    filter_ = finite;
    make_some_not_finite(filter_, p.k, p.c, p.r, p.s);
    check_dgrad(p);
    filter_ = finite;
    filter_.back() = -INFINITY;
    make_some_not_finite(grad_output_, p.n, p.k, p.p(), p.q());
    check_dgrad(p);
  }

  void check_dgrad(const Conv2dProblem& p) {
    const Values expected = reference_dgrad(p, grad_output_, filter_);
    const GatherCheck call(p, Direction::kDgrad, grad_output_, filter_);
    for_each_plan(p, Direction::kDgrad, false,
                  [&](const FamilyPlan& of) { call.run(of, expected); });
  }

  Values input_ = small_integers(input_count(problem_), 1);
  Values filter_ = small_integers(filter_count(problem_), 2);
  Values bias_ = small_integers(problem_.k, 3);
  Values grad_output_ = small_integers(output_count(problem_), 4);
};

TEST_P(FirstLayers, FpropIsExactOnSmallIntegers) {
  check_fprop(problem_, {}, reference_fprop(problem_, input_, filter_, {}));
}

TEST_P(FirstLayers, FpropComputesAnEpilogue) {
  check_fprop(problem_, {.activation = {ActivationKind::kRelu}},
              reference_fused(problem_, Direction::kFprop,
                              reference_fprop(problem_, input_, filter_, bias_), {}, {}, {},
                              {ActivationKind::kRelu}));
}

TEST_P(FirstLayers, FpropLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check_fprop(problem_, {}, reference_fprop(problem_, input_, filter_, {}));
}

// In float32 of inputs whose rows begin at multiples of 16 bytes, if the filter is not too large.
TEST_P(FirstLayers, WgradIsExactOnSmallIntegers) { check_wgrad(problem_); }

TEST_P(FirstLayers, WgradLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check_wgrad(problem_);
}

TEST_P(FirstLayers, WgradLetsManyInfinitiesReachTheirTapsAlone) {
  for (size_t i = 5; i < input_.size(); i += 41) input_[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  check_wgrad(problem_);
  std::fill(input_.begin(), input_.end(), INFINITY);
  check_wgrad(problem_);
}

TEST_P(FirstLayers, WgradLetsTheOutputsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(grad_output_, problem_.n, problem_.k, problem_.p(), problem_.q());
  check_wgrad(problem_);
}

TEST_P(FirstLayers, DgradIsExactOnSmallIntegers) { check_dgrad(problem_); }

// Products with zeros that are no taps of the filter would make NaN of them.
TEST_P(FirstLayers, DgradLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(grad_output_, problem_.n, problem_.k, problem_.p(), problem_.q());
  check_dgrad(problem_);
}

TEST_P(FirstLayers, DgradLetsTheFiltersInfinitiesReachTheirPixelsAlone) {
  check_dgrad_of_infinite_weights();
}

TEST_P(FirstLayers, DgradWritesRowsWithSpaceBetween) {
  Conv2dProblem p = problem_;
  const int64_t row = p.c * p.w + 3, image = row * (p.h + 1) + 5;
  p.input = {.n = image, .c = 1, .h = row, .w = p.c};
  check_dgrad(p);
}

TEST_P(FirstLayers, TakesAnyInput) {
  Conv2dProblem p = problem_;
  const int64_t pixel = p.c + 5, row = pixel * (p.w + 1) + 1, image = row * (p.h + 2) + 3;
  for (const Strides& strides :
       {Strides{.n = image, .c = 1, .h = row, .w = pixel}, nchw_strides(p.c, p.h, p.w)}) {
    p.input = strides;
    check_fprop(p, {}, reference_fprop(p, input_, filter_, {}));
    check_wgrad(p);
  }
}

// The same with rows innermost; those of the output begin at multiples of 16 bytes.
class FirstLayersRows : public FirstLayers {
 protected:
  FirstLayersRows() {
    problem_.set_dense_strides(false);
    const int64_t row = round_up(problem_.q(), 8), plane = row * problem_.p();
    problem_.output = {.n = plane * problem_.k + 8, .c = plane, .h = row, .w = 1};
  }
};

TEST_P(FirstLayersRows, FpropIsExactOnSmallIntegers) {
  const Values expected = reference_fprop(problem_, input_, filter_, {});
  check_fprop(problem_, {}, expected);
  problem_.set_dense_strides(false);
  check_fprop(problem_, {}, expected);
  problem_.input = nhwc_strides(problem_.c, problem_.h, problem_.w);
  check_fprop(problem_, {}, expected);
}

TEST_P(FirstLayersRows, FpropComputesAnEpilogue) {
  const Values scale = small_integers(problem_.k, 5), shift = small_integers(problem_.k, 6);
  const Values residual = small_integers(output_count(problem_), 7);
  const Activation relu{ActivationKind::kRelu};
  const FusedOperands fused(problem_, Direction::kFprop, scale, shift, residual, relu);
  check_fprop(problem_, fused.fusion(),
              reference_fused(problem_, Direction::kFprop,
                              reference_fprop(problem_, input_, filter_, bias_), scale, shift,
                              residual, relu));
}

TEST_P(FirstLayersRows, FpropLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check_fprop(problem_, {}, reference_fprop(problem_, input_, filter_, {}));
}

TEST_P(FirstLayersRows, WgradIsExactOnSmallIntegers) {
  check_wgrad(problem_);
  problem_.input = nhwc_strides(problem_.c, problem_.h, problem_.w);
  check_wgrad(problem_);
}

TEST_P(FirstLayersRows, WgradLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(input_, problem_.n, problem_.c, problem_.h, problem_.w);
  check_wgrad(problem_);
  for (size_t i = 5; i < input_.size(); i += 41) input_[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  check_wgrad(problem_);
}

TEST_P(FirstLayersRows, DgradIsExactOnSmallIntegers) {
  check_dgrad(problem_);
  problem_.input = nhwc_strides(problem_.c, problem_.h, problem_.w);
  check_dgrad(problem_);
}

TEST_P(FirstLayersRows, DgradLetsInfinitiesReachTheirTapsAlone) {
  make_some_not_finite(grad_output_, problem_.n, problem_.k, problem_.p(), problem_.q());
  check_dgrad(problem_);
}

TEST_P(FirstLayersRows, DgradLetsTheFiltersInfinitiesReachTheirPixelsAlone) {
  check_dgrad_of_infinite_weights();
}

TEST_P(FirstLayersRows, DgradWritesRowsWithSpaceBetween) {
  Conv2dProblem p = problem_;
  const int64_t row = p.w + 3, plane = row * p.h + 7, image = plane * p.c + 5;
  p.input = {.n = image, .c = plane, .h = row, .w = 1};
  check_dgrad(p);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayersRows,
                         ::testing::ValuesIn(typed_shapes("first_layers", kSm90Types)),
                         name_of_typed);
INSTANTIATE_TEST_SUITE_P(Shapes, FirstLayers,
                         ::testing::ValuesIn(typed_shapes("first_layers", kSm90Types)),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
