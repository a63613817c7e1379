// What the generic family's launches need beside pointers: worked out once, and the same as what
// the problem's phases come to.
#include "conv2d/families/generic/lowered.h"

#include <gtest/gtest.h>

#include "chip/known_chips.h"
#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/limits.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

// Every phase comes once and in order, behind the tiles and the packed rows of those before it.
TEST(GenericLowered, LaunchesHaveEveryPhaseInOrder) {
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem& p = shape.problem;
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      if (!beyond_limits(p, direction).empty()) continue;
      const std::vector<Phase> phases = make_phases(p, direction);
      for (const generic::Kernel kernel : generic::kAllKernels) {
        const generic::Plan plan = generic::make_plan(p, direction, h200(), false, kernel);
        const generic::Lowered lowered = generic::lower(p, plan);
        const generic::PackedShape& packed = lowered.packed;
        size_t next = 0;
        int64_t rows = 0;
        for (const generic::GatherLaunch& launch : lowered.launches) {
          int64_t tiles = 0;
          ASSERT_GT(launch.phase_count, 0) << shape << plan;
          for (int32_t i = 0; i < launch.phase_count; ++i, ++next) {
            ASSERT_LT(next, phases.size()) << shape << plan;
            const Phase& phase = launch.phases[i];
            EXPECT_EQ(phase.pixels, phases[next].pixels) << shape << plan;
            EXPECT_EQ(phase.first_tile, tiles) << shape << plan;
            EXPECT_EQ(phase.packed_offset, rows) << shape << plan;
            tiles += ceil_div(phase.pixels, packed.columns);
            rows += round_up(phase.reduction, packed.step);
          }
          EXPECT_EQ(launch.tiles, tiles) << shape << plan;
        }
        EXPECT_EQ(next, phases.size()) << shape << plan;
        EXPECT_EQ(rows * packed.pitch, packed.group_elements) << shape << plan;
      }
    }
  }
}

TEST(GenericLowered, WgradHasTheBiasColumnOfThePlan) {
  const Conv2dProblem p = parse_shape("a n2c8h9w9 k16r3s3").problem;
  for (const bool with_bias : {false, true}) {
    const generic::Plan plan = generic::make_plan(p, Direction::kWgrad, h200(), with_bias);
    EXPECT_EQ(generic::lower(p, plan).wgrad.columns, 8 * 9 + (with_bias ? 1 : 0));
  }
}

// A plan that the family answers with keeps what its first launch works out.
TEST(GenericLowered, IsKeptWithThePlan) {
  const Conv2dProblem p = parse_shape("a n2c8h9w9 k16r3s3").problem;
  const Request request{.problem = p, .direction = Direction::kDgrad, .chip = h200()};
  for (const FamilyPlan& of : plans_of("generic", request)) {
    const auto* made = dynamic_cast<const PlanOf<generic::Plan>*>(of.plan.get());
    if (made == nullptr) continue;  // of another family of the group
    ASSERT_NE(made->details.lowered, nullptr) << of;
    const auto lower = [&] { return generic::lower(made->problem, made->details); };
    EXPECT_EQ(&made->details.lowered->get(lower), &made->details.lowered->get(lower)) << of;
  }
}

}  // namespace
}  // namespace haloconv::testing
