// Every plan of the Hopper weight gradient on every edge shape: exact on small integers, every
// element written, nothing outside touched; NaN exactly where it belongs. Needs a Hopper GPU, not
// torch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "conv2d/families/wgrad/row_maps.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/families/wgrad/shifting_plans.h"
#include "cpp_tests/plan_sample.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/typed_shapes.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

class Sm90WgradKernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    const Conv2dProblem& p = GetParam().problem;
    is_taken_ = hopper_rows_decline(p, Direction::kWgrad, gpu()).empty();
    grad_output_ = small_integers(output_count(p), 1);
    input_ = small_integers(input_count(p), 2);
  }

  // offset: elements by which grad_output begins after whole 256 bytes.
  void check(const Conv2dProblem& p, bool with_bias, int64_t offset = 0) const {
    if (!is_taken_) return;
    const WgradCheck check(p, grad_output_, input_, offset);
    PlanSample sample;
    for (const FamilyPlan& of : plans_of("sm90", {.problem = p,
                                                  .direction = Direction::kWgrad,
                                                  .chip = gpu(),
                                                  .tf32 = GetParam().tf32,
                                                  .with_bias = with_bias,
                                                  .is_aligned = offset == 0})) {
      if (!sample.takes(of)) continue;
      check.run(of, with_bias);
      if (HasFatalFailure()) return;
    }
  }

  Values grad_output_, input_;
  bool is_taken_ = false;
};

TEST_P(Sm90WgradKernels, AreExactOnSmallIntegers) {
  const Conv2dProblem& p = GetParam().problem;
  check(p, true);
  Conv2dProblem strided = p;
  strided.input = rows_slice(p.c, p.h, p.w);
  strided.output = rows_slice(p.k, p.p(), p.q());
  strided.filter = nhwc_strides(p.group_c(), p.r, p.s);
  if (!HasFatalFailure()) check(strided, false);
}

TEST_P(Sm90WgradKernels, AreExactAtAnyAddress) {
  for (const int64_t offset : {1, 2}) {
    if (!HasFatalFailure()) check(GetParam().problem, true, offset);
  }
}

TEST_P(Sm90WgradKernels, SpreadNanAndInfinityToTheWeightsThatMeetThem) {
  const Conv2dProblem& p = GetParam().problem;
  make_some_not_finite(input_, p.n, p.c, p.h, p.w);
  check(p, true);
}

TEST_P(Sm90WgradKernels, MakeInfinityOrNanOfInfinityAlone) {
  std::fill(input_.begin(), input_.end(), INFINITY);
  for (double& gradient : grad_output_) gradient = std::max(gradient, 1.0);
  check(GetParam().problem, true);
}

TEST_P(Sm90WgradKernels, SpreadNanOfGradientsToTheirChannelAlone) {
  const Conv2dProblem& p = GetParam().problem;
  std::fill(grad_output_.begin(), grad_output_.begin() + p.p() * p.q(), NAN);
  check(p, true);
}

class Sm90WgradShiftedSegments : public Sm90WgradKernels {
 protected:
  void check_shifting(int64_t offset = 0) const {
    const Conv2dProblem& p = GetParam().problem;
    const WgradCheck check(p, grad_output_, input_, offset);
    const std::vector<FamilyPlan> plans =
        plans_of("sm90", {.problem = p, .direction = Direction::kWgrad, .chip = gpu()});
    const auto own = std::ranges::find_if(plans, [](const FamilyPlan& of) {
      return dynamic_cast<const PlanOf<wgrad::Plan>*>(of.plan.get()) != nullptr;
    });
    ASSERT_NE(own, plans.end());
    PlanSample sample;
    for (const wgrad::Plan& plan : shifting_plans(p, true)) {
      const FamilyPlan of{own->family, std::make_shared<PlanOf<wgrad::Plan>>(flattened(p), plan)};
      if (!sample.takes(of)) continue;
      check.run(of, true);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(Sm90WgradShiftedSegments, AreExactOnSmallIntegers) {
  check_shifting();
  if (!HasFatalFailure()) check_shifting(4);
  if (!HasFatalFailure()) check_shifting(2);  // they do not shift then
}

TEST_P(Sm90WgradShiftedSegments, SpreadNanAndInfinityToTheWeightsThatMeetThem) {
  const Conv2dProblem& p = GetParam().problem;
  make_some_not_finite(input_, p.n, p.c, p.h, p.w);
  check_shifting();
}

TEST_P(Sm90WgradShiftedSegments, MakeInfinityOrNanOfInfinityAlone) {
  std::fill(input_.begin(), input_.end(), INFINITY);
  for (double& gradient : grad_output_) gradient = std::max(gradient, 1.0);
  check_shifting();
}

TEST_P(Sm90WgradShiftedSegments, SpreadNanOfGradientsToTheirChannelAlone) {
  const Conv2dProblem& p = GetParam().problem;
  std::fill(grad_output_.begin(), grad_output_.begin() + p.p() * p.q(), NAN);
  check_shifting();
}

// The driver's functions know a thread's context, which only calls of the runtime give it.
TEST(Sm90WgradRowMaps, AreMadeOnANewThread) {
  if (!has_gpu() || gpu().compute_capability != 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  const Conv2dProblem p = parse_shape("a n4c16h34w34 k64r3s3").problem;
  const Buffer grad_output(output_count(p) * 4);
  wgrad::Plan plan = wgrad::make_plans(p, gpu(), false).front();
  plan.segment = 32;
  plan.boxes = true;
  wgrad::Arguments args = wgrad::make_arguments(p, plan).value();
  args.grad_output = reinterpret_cast<const float*>(grad_output.data());
  bool are_made = false;
  std::thread([&] { are_made = wgrad::make_row_maps(args).has_value(); }).join();
  EXPECT_TRUE(are_made);
}

class Sm90PreciseWgradKernels : public Sm90WgradKernels {};

TEST_P(Sm90PreciseWgradKernels, AreExactOnPixelsThatTf32WouldRound) {
  lengthen(input_);
  check(GetParam().problem, false);
}

TEST_P(Sm90PreciseWgradKernels, AreExactOnGradientsThatTf32WouldRound) {
  lengthen(grad_output_);
  check(GetParam().problem, true);
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90WgradKernels, ::testing::ValuesIn(sm90_shapes("edges")),
                         name_of_typed);
INSTANTIATE_TEST_SUITE_P(Shifted, Sm90WgradShiftedSegments,
                         ::testing::ValuesIn(typed_shapes(shifted_shapes(), kSm90Types)),
                         name_of_typed);
INSTANTIATE_TEST_SUITE_P(Edges, Sm90PreciseWgradKernels,
                         ::testing::ValuesIn(precise_shapes("edges")), name_of_typed);

}  // namespace
}  // namespace haloconv::testing
