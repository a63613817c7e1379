// Weight gradients of filters a few columns wide with a stride of 2: every plan exact on small
// integers and near infinities. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include <algorithm>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/families/pointwise/paired_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

class PointwisePairedKernels : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    const auto plans =
        plans_of("pointwise", {.problem = p_, .direction = Direction::kWgrad, .chip = gpu()});
    EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [](const FamilyPlan& of) {
      return of.says(" paired ");
    })) << p_;
  }

  const Conv2dProblem p_ = GetParam().problem;
};

TEST_P(PointwisePairedKernels, AreExact) { check_wgrad("pointwise", p_, gpu()); }

TEST_P(PointwisePairedKernels, AreExactWithFewBlocks) {
  Chip small = gpu();
  small.multiprocessors = 1;
  check_wgrad("pointwise", p_, small);
}

TEST_P(PointwisePairedKernels, LetWhatIsNotFiniteReachItsTapsAlone) {
  check_wgrad_near_infinities("pointwise", p_, gpu());
}

INSTANTIATE_TEST_SUITE_P(Shapes, PointwisePairedKernels, ::testing::ValuesIn(paired_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
