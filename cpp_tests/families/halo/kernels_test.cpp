// Every plan that the Hopper planner can return, on every edge shape: exact on small integers,
// every element written, nothing outside touched; NaN exactly where it belongs. Needs a Hopper GPU,
// not torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/plan_sample.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

class Sm90Kernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    const Conv2dProblem& p = GetParam().problem;
    input_ = small_integers(input_count(p), 1);
    filter_ = small_integers(filter_count(p), 2);
    bias_ = small_integers(p.k, 3);
    grad_output_ = small_integers(output_count(p), 4);
  }

  // Every plan that multiplies by zeros where the definition does not, or the other way round.
  void check_all_special() {
    only_special_ = true;
    check_all(false);
    if (!HasFatalFailure()) check_all(true);
    if (!HasFatalFailure()) check_fused(true, true, true, {ActivationKind::kLeakyRelu, 0.25});
  }

  // Every plan of both directions, with dense and with strided operands.
  void check_all(bool splits) {
    const Conv2dProblem& p = GetParam().problem;
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      if (!hopper_rows_decline(p, direction, gpu()).empty()) continue;
      const bool fprop = direction == Direction::kFprop;
      const Values expected = fprop ? reference_fprop(p, input_, filter_, bias_)
                                    : reference_dgrad(p, grad_output_, filter_);
      check(p, direction, splits, expected);
      Conv2dProblem strided = p;  // the operand alone: results are dense
      (fprop ? strided.input : strided.output) =
          fprop ? rows_slice(p.c, p.h, p.w) : rows_slice(p.k, p.p(), p.q());
      if (!HasFatalFailure()) check(strided, direction, splits, expected);
    }
  }

  // Every plan of both directions that takes a fusion, with this one of its parts.
  void check_fused(bool scaled, bool shifted, bool has_residual, const Activation& activation) {
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      check_fused(direction, scaled, shifted, has_residual, activation);
      if (HasFatalFailure()) return;
    }
  }

  // dgrad with a bias for each channel of the input's gradient.
  void check_fused(Direction direction, bool scaled, bool shifted, bool has_residual,
                   const Activation& activation) {
    const Conv2dProblem& p = GetParam().problem;
    if (!hopper_rows_decline(p, direction, gpu()).empty()) return;
    const bool fprop = direction == Direction::kFprop;
    const int64_t channels = result_channels(p, direction);
    const auto given = [](bool has, const Values& values) { return has ? values : Values(); };
    const Values scales = given(scaled, small_integers(channels, 5));
    const Values shifts = given(shifted, small_integers(channels, 6));
    const Values residuals =
        given(has_residual, small_integers(fprop ? output_count(p) : input_count(p), 7));
    const Values biases = fprop ? bias_ : small_integers(channels, 3);
    const Values sums = fprop ? reference_fprop(p, input_, filter_, biases)
                              : reference_dgrad_with_bias(p, grad_output_, filter_, biases);
    const Values expected =
        reference_fused(p, direction, sums, scales, shifts, residuals, activation);
    const GatherCheck call(p, direction, fprop ? input_ : grad_output_, filter_, biases);
    const FusedOperands fused(p, direction, scales, shifts, residuals, activation);
    PlanSample sample;
    for (const FamilyPlan& of : plans_of("sm90", request(p, direction))) {
      if (!of.plan->takes_fusion || is_left_out(of) || !sample.takes(of)) continue;
      call.run(of, expected, fused.fusion());
      fused.expect_residual(text_of(p, of));
      if (HasFatalFailure()) return;
    }
  }

  static bool tf32() { return GetParam().tf32; }

  static Request request(const Conv2dProblem& p, Direction direction) {
    return {.problem = p, .direction = direction, .chip = gpu(), .tf32 = tf32()};
  }

  // A plan of halo with the fewest windows that it can run with. Of a precise plan: all windows of
  // a batch, and the planner has none with fewer.
  static FamilyPlan with_fewest_stages(const FamilyPlan& of) {
    const auto* const halo = dynamic_cast<const PlanOf<halo::Plan>*>(of.plan.get());
    if (halo == nullptr) return of;
    auto changed = std::make_shared<PlanOf<halo::Plan>>(*halo);
    int stages = 2;
    for (const halo::Launch& launch : halo::make_launches(halo->problem, halo->details)) {
      if (launch.arguments.taps == 1) stages = 4;
    }
    EXPECT_GE(halo->details.stages, stages) << of;
    halo::set_stages(halo->problem, stages, changed->details);
    return {of.family, changed};
  }

  bool is_left_out(const FamilyPlan& of) const {
    return only_special_ && of.family->name == "halo" && !of.says("fold") && !of.says("precise");
  }

  void check(const Conv2dProblem& p, Direction direction, bool splits, const Values& expected) {
    const bool fprop = direction == Direction::kFprop;
    ASSERT_EQ(hopper_rows_decline(p, direction, gpu()), "");
    const GatherCheck call(p, direction, fprop ? input_ : grad_output_, filter_,
                           fprop ? bias_ : Values());
    PlanSample sample;
    for (FamilyPlan of : plans_of("sm90", request(p, direction))) {
      if (of.says("splits") != splits || is_left_out(of) || !sample.takes(of)) continue;
      if (fprop && !of.plan->takes_bias) continue;  // relaid's, whose own tests have them
      if (has_fewest_stages_) of = with_fewest_stages(of);
      call.run(of, expected);
      if (HasFatalFailure()) return;
    }
  }

  Values input_, filter_, bias_, grad_output_;
  bool only_special_ = false, has_fewest_stages_ = false;
};

TEST_P(Sm90Kernels, AreExactOnSmallIntegers) { check_all(false); }

TEST_P(Sm90Kernels, WithSplitsAreExactOnSmallIntegers) { check_all(true); }

class Sm90FusedKernels : public Sm90Kernels {};

TEST_P(Sm90FusedKernels, WithAWholeFusionAreExactOnSmallIntegers) {
  check_fused(true, true, true, {ActivationKind::kLeakyRelu, 0.25});
}

TEST_P(Sm90FusedKernels, WithPartsOfAFusionAreExactOnSmallIntegers) {
  check_fused(true, false, false, {ActivationKind::kNone});
  if (!HasFatalFailure()) check_fused(false, true, false, {ActivationKind::kClamp, -5, 6});
  if (!HasFatalFailure()) check_fused(false, false, true, {ActivationKind::kRelu});
}

TEST_P(Sm90Kernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = GetParam().problem;
  make_some_not_finite(input_, p.n, p.c, p.h, p.w);
  make_some_not_finite(grad_output_, p.n, p.k, p.p(), p.q());
  check_all_special();
}

TEST_P(Sm90Kernels, MakeNanOfNanAlone) {
  std::fill(input_.begin(), input_.end(), NAN);
  std::fill(grad_output_.begin(), grad_output_.end(), NAN);
  check_all_special();
}

// Of a fold nearly all sums are to be computed once more; by the definition most are finite, or
// infinite.
TEST_P(Sm90Kernels, SpreadScatteredInfinitiesToThoseThatMeetThem) {
  for (Values* const values : {&input_, &grad_output_}) {
    for (size_t i = 0; i < values->size(); i += 97) {
      (*values)[i] = i % 2 == 0 ? INFINITY : -INFINITY;
    }
  }
  check_all_special();
}

TEST_P(Sm90Kernels, MakeInfinityOfInfinityAlone) {
  std::fill(input_.begin(), input_.end(), INFINITY);
  std::fill(grad_output_.begin(), grad_output_.end(), INFINITY);
  std::fill(filter_.begin(), filter_.end(), 1.0);
  only_special_ = true;
  check_all(false);
  if (!HasFatalFailure()) check_all(true);
}

TEST_P(Sm90Kernels, MultiplyPaddingByInfiniteWeights) {
  const Conv2dProblem& p = GetParam().problem;
  if (!hopper_rows_decline(p, Direction::kFprop, gpu()).empty()) return;
  only_special_ = true;
  make_some_not_finite(filter_, p.k, p.group_c(), p.r, p.s);
  const Values expected = reference_padded_fprop(p, input_, filter_, bias_);
  for (const bool splits : {false, true}) {
    if (!HasFatalFailure()) check(p, Direction::kFprop, splits, expected);
  }
}

class Sm90PreciseKernels : public Sm90Kernels {};

TEST_P(Sm90PreciseKernels, AreExactOnPixelsThatTf32WouldRound) {
  lengthen(input_);
  lengthen(grad_output_);
  check_all(false);
  if (!HasFatalFailure()) check_all(true);
}

TEST_P(Sm90PreciseKernels, AreExactOnWeightsThatTf32WouldRound) {
  lengthen(filter_);
  check_all(false);
  if (!HasFatalFailure()) check_all(true);
}

// Else a batch would wait for a window whose place it has to free.
TEST_P(Sm90PreciseKernels, NeedNoMoreStagesThanTheFewest) {
  has_fewest_stages_ = true;
  check_all(false);
}

// TF32 would round them to infinity.
TEST_P(Sm90PreciseKernels, KeepTheLargestNumbersFinite) {
  only_special_ = true;
  const Conv2dProblem& p = GetParam().problem;
  std::fill(input_.begin(), input_.end(), 0.0);
  std::fill(grad_output_.begin(), grad_output_.end(), 0.0);
  input_.at(p.h * p.w / 2) = grad_output_.at(p.p() * p.q() / 2) =
      std::ldexp(2 - std::ldexp(1, -11), 127);
  for (double& weight : filter_) weight = std::copysign(0.5, weight);
  std::fill(bias_.begin(), bias_.end(), 0.0);
  check_all(false);
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90Kernels, ::testing::ValuesIn(sm90_shapes("edges")),
                         name_of_typed);
INSTANTIATE_TEST_SUITE_P(Edges, Sm90PreciseKernels, ::testing::ValuesIn(precise_shapes("edges")),
                         name_of_typed);
INSTANTIATE_TEST_SUITE_P(Edges, Sm90FusedKernels,
                         ::testing::ValuesIn(typed_edges(std::span(kSm90Types).first(1))),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
