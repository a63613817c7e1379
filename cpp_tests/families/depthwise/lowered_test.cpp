// What the depthwise family's launches need beside pointers: worked out once.
#include "conv2d/families/depthwise/lowered.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "chip/known_chips.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using depthwise::Kernel;

Conv2dProblem layer() { return parse_shape("a n2c16h9w9 k16r3s3 groups=16").problem; }

TEST(DepthwiseLowered, HasTheShapeThatThePlansKernelTakes) {
  const Conv2dProblem p = layer();
  depthwise::Plan plan{.direction = Direction::kFprop, .kernel = Kernel::kRows};
  EXPECT_EQ(std::get<depthwise::Depthwise>(depthwise::lower(p, plan).shape).blocks,
            depthwise::make_depthwise(p, Direction::kFprop)->blocks);
  plan.direction = Direction::kWgrad;
  plan.with_bias = true;
  const depthwise::Lowered wgrad = depthwise::lower(p, plan);
  EXPECT_EQ(std::get<depthwise::DepthwiseWgrad>(wgrad.shape).tiles,
            depthwise::make_depthwise_wgrad(p)->tiles);
  EXPECT_EQ(wgrad.wgrad.columns, 9 + 1);
}

TEST(DepthwiseLowered, RefusesAProblemThatTheKernelsDoNotTake) {
  const depthwise::Plan plan{.direction = Direction::kFprop, .kernel = Kernel::kChannels};
  EXPECT_THROW(depthwise::lower(layer(), plan), std::logic_error);  // rows are innermost
}

// A plan that the family answers with keeps what its first launch works out.
TEST(DepthwiseLowered, IsKeptWithThePlan) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
    const Request request{.problem = layer(), .direction = direction, .chip = h200()};
    const auto plans = plans_of("depthwise", request);
    ASSERT_FALSE(plans.empty());
    for (const FamilyPlan& of : plans) {
      const auto& made = made_by_family<depthwise::Plan>(*of.plan);
      ASSERT_NE(made.details.lowered, nullptr) << of;
      const auto lower = [&] { return depthwise::lower(made.problem, made.details); };
      EXPECT_EQ(&made.details.lowered->get(lower), &made.details.lowered->get(lower)) << of;
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
