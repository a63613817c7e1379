// Every plan of phase_pairs on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/families/phase_pairs/edge_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_sample.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class PhasePairsKernels : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    problem_ = GetParam().problem;
    source_ = small_integers(output_count(problem_), 1);
    filter_ = small_integers(filter_count(problem_), 2);
    bias_ = small_integers(problem_.c, 3);
  }

  // With a bias and without, of dense tensors and of tensors that lie apart.
  void check_all() {
    const Conv2dProblem& p = problem_;
    const Values sums = reference_dgrad(p, source_, filter_);
    const Values with_bias = reference_dgrad_with_bias(p, source_, filter_, bias_);
    for (const Conv2dProblem& of : {p, apart()}) {
      check(of, sums, false, {});
      if (!HasFatalFailure()) check(of, with_bias, true, {});
      if (HasFatalFailure()) return;
    }
  }

  Conv2dProblem apart() const {
    const Conv2dProblem& p = problem_;
    Conv2dProblem apart = p;
    apart.input = rows_slice(p.c, p.h, p.w);
    const int64_t pitch = p.q() + 4, plane = p.p() * pitch + 8;
    apart.output = {.n = p.k * plane + 4, .c = plane, .h = pitch, .w = 1};
    return apart;
  }

  void check(const Conv2dProblem& p, const Values& expected, bool has_bias, const Fusion& fusion) {
    DeviceTensor source(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    DeviceTensor filter(positions(p.filter, p.k, p.c, p.r, p.s), p.type);
    DeviceTensor bias(positions({1, 1, 1, 1}, p.c, 1, 1, 1), p.type);
    source.set(source_);
    filter.set(filter_);
    bias.set(bias_);
    PlanSample sample;
    const Request request = {.problem = p, .direction = Direction::kDgrad, .chip = gpu()};
    const std::vector<FamilyPlan> plans = plans_of("phase_pairs", request);
    ASSERT_FALSE(plans.empty()) << p;
    for (const FamilyPlan& of : plans) {
      if (!sample.takes(of)) continue;
      const std::string what = text_of(p, of);
      DeviceTensor result(positions(p.input, p.n, p.c, p.h, p.w), p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.filter = filter.data(),
                 .output = source.data(),
                 .result = result.data(),
                 .bias = has_bias ? bias.data() : nullptr,
                 .fusion = fusion,
                 .workspace = workspace.data()});
      result.expect(expected, what);
      EXPECT_TRUE(workspace.guards_are_whole()) << what << ": wrote outside its workspace";
      if (HasFatalFailure()) return;
    }
  }

  Conv2dProblem problem_;
  Values source_, filter_, bias_;
};

TEST_P(PhasePairsKernels, AreExactOnSmallIntegers) { check_all(); }

TEST_P(PhasePairsKernels, ComputeAnEpilogue) {
  const Activation relu{ActivationKind::kRelu};
  const Values scale = small_integers(problem_.c, 4), shift = small_integers(problem_.c, 5);
  const Values residual = small_integers(input_count(problem_), 6);
  const Values fused = reference_fused(problem_, Direction::kDgrad,
                                       reference_dgrad_with_bias(problem_, source_, filter_, bias_),
                                       scale, shift, residual, relu);
  for (const Conv2dProblem& p : {problem_, apart()}) {
    const auto of_channels = positions({1, 1, 1, 1}, p.c, 1, 1, 1);
    DeviceTensor scales(of_channels, p.type), shifts(of_channels, p.type);
    DeviceTensor residuals(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    scales.set(scale);
    shifts.set(shift);
    residuals.set(residual);
    check(p, fused, true,
          {.scale = scales.data(),
           .shift = shifts.data(),
           .residual = residuals.data(),
           .activation = relu});
    if (HasFatalFailure()) return;
  }
}

TEST_P(PhasePairsKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_all();
}

TEST_P(PhasePairsKernels, MakeNanOfNanAlone) {
  std::fill(source_.begin(), source_.end(), NAN);
  check_all();
}

INSTANTIATE_TEST_SUITE_P(Edges, PhasePairsKernels, ::testing::ValuesIn(phase_pairs_shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace haloconv::testing
