// Every plan of all_phases on its edge shapes: exact on small integers, every element written,
// nothing outside touched; NaN and infinity exactly where they belong; with an epilogue. Of rows
// and channels innermost, dense and apart. Needs a Hopper GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/families/all_phases/edge_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_sample.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/slices.h"

namespace haloconv::testing {
namespace {

class AllPhasesKernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    problem_ = GetParam().problem;
    source_ = small_integers(output_count(problem_), 1);
    filter_ = small_integers(filter_count(problem_), 2);
    bias_ = small_integers(problem_.c, 3);
  }

  // The problem with its tensors in each of the ways that they lie.
  std::vector<Conv2dProblem> layouts() const {
    Conv2dProblem rows = problem_, channels = problem_;
    rows.set_dense_strides(false);
    channels.set_dense_strides(true);
    Conv2dProblem rows_apart = rows, channels_apart = channels;
    rows_apart.input = rows_slice(rows.c, rows.h, rows.w);
    rows_apart.output = rows_slice(rows.k, rows.p(), rows.q());
    channels_apart.input = channels_last_slice(rows.c, rows.h, rows.w);
    channels_apart.output = channels_last_slice(rows.k, rows.p(), rows.q());
    return {rows, channels, rows_apart, channels_apart};
  }

  void check_all() {
    const Values sums = reference_dgrad(problem_, source_, filter_);
    for (const Conv2dProblem& of : layouts()) {
      check(of, sums, false, {});
      if (HasFatalFailure()) return;
    }
  }

  void check(const Conv2dProblem& p, const Values& expected, bool has_bias, const Fusion& fusion) {
    DeviceTensor source(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
    DeviceTensor bias(positions({1, 1, 1, 1}, p.c, 1, 1, 1), p.type);
    source.set(source_);
    filter.set(filter_);
    bias.set(bias_);
    PlanSample sample;
    const Request request = {.problem = p, .direction = Direction::kDgrad, .chip = gpu()};
    const std::vector<FamilyPlan> plans = plans_of("all_phases", request);
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

TEST_P(AllPhasesKernels, AreExactOnSmallIntegers) { check_all(); }

TEST_P(AllPhasesKernels, ComputeAnEpilogue) {
  const Activation relu{ActivationKind::kRelu};
  const Values sums = reference_dgrad_with_bias(problem_, source_, filter_, bias_);
  const Values scale = small_integers(problem_.c, 4), shift = small_integers(problem_.c, 5);
  const Values residual = small_integers(input_count(problem_), 6);
  const Values fused =
      reference_fused(problem_, Direction::kDgrad, sums, scale, shift, residual, relu);
  for (const Conv2dProblem& p : layouts()) {
    const auto of_channels = positions({1, 1, 1, 1}, p.c, 1, 1, 1);
    DeviceTensor scales(of_channels, p.type), shifts(of_channels, p.type);
    DeviceTensor residuals(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    scales.set(scale);
    shifts.set(shift);
    residuals.set(residual);
    check(p, sums, true, {});
    if (HasFatalFailure()) return;
    check(p, fused, true,
          {.scale = scales.data(),
           .shift = shifts.data(),
           .residual = residuals.data(),
           .activation = relu});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AllPhasesKernels, SpreadNanAndInfinityToThoseThatMeetThem) {
  const Conv2dProblem& p = problem_;
  make_some_not_finite(source_, p.n, p.k, p.p(), p.q());
  check_all();
}

TEST_P(AllPhasesKernels, MultiplyInfiniteWeightsWithTheSourceAlone) {
  for (size_t i = 3; i < filter_.size(); i += 11) filter_[i] = i % 2 == 0 ? INFINITY : -INFINITY;
  check_all();
}

TEST_P(AllPhasesKernels, MakeNanOfNanAlone) {
  std::fill(source_.begin(), source_.end(), NAN);
  check_all();
}

INSTANTIATE_TEST_SUITE_P(Edges, AllPhasesKernels, ::testing::ValuesIn(all_phases_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
