#include "cpp_tests/dgrad_fixture.h"

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/fused_operands.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/plan_sample.h"

namespace haloconv::testing {

void HopperDgrad::SetUp() {
  if (!has_gpu() || gpu().compute_capability != 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  source_ = small_integers(output_count(problem_), 1);
  filter_ = small_integers(filter_count(problem_), 2);
  bias_ = small_integers(problem_.c, 3);
}

void HopperDgrad::check_sums() {
  const Values sums = reference_dgrad(problem_, source_, filter_);
  for (const Conv2dProblem& p : layouts()) {
    check(p, sums, false, {});
    if (HasFatalFailure()) return;
  }
}

void HopperDgrad::check_epilogue() {
  const Activation relu{ActivationKind::kRelu};
  const Values sums = reference_dgrad_with_bias(problem_, source_, filter_, bias_);
  const Values scale = small_integers(problem_.c, 4), shift = small_integers(problem_.c, 5);
  const Values residual = small_integers(input_count(problem_), 6);
  const Values fused =
      reference_fused(problem_, Direction::kDgrad, sums, scale, shift, residual, relu);
  for (const Conv2dProblem& p : layouts()) {
    check(p, sums, true, {});
    if (HasFatalFailure()) return;
    const FusedOperands operands(p, Direction::kDgrad, scale, shift, residual, relu);
    check(p, fused, true, operands.fusion());
    if (HasFatalFailure()) return;
  }
}

void HopperDgrad::check(const Conv2dProblem& problem, const Values& expected, bool has_bias,
                        const Fusion& fusion) const {
  const Conv2dProblem& p = problem;
  const GatherCheck call(p, Direction::kDgrad, source_, filter_, has_bias ? bias_ : Values());
  PlanSample sample;
  const Request request = {.problem = p, .direction = Direction::kDgrad, .chip = gpu()};
  const std::vector<FamilyPlan> plans = plans_of(family(), request);
  ASSERT_FALSE(plans.empty()) << p;
  for (const FamilyPlan& of : plans) {
    if (!sample.takes(of)) continue;
    call.run(of, expected, fusion);
    if (HasFatalFailure()) return;
  }
}

}  // namespace haloconv::testing
