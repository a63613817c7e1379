// The planner of the weight gradient in a hurry: what it passes over, and what is worked out once,
// changes no plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/families/wgrad/lowered.h"
#include "conv2d/families/wgrad/plan.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

TEST(WgradPlanning, TheBestPlansAreTheFirstOfAll) {
  for (const char* file :
       {"reference", "edges", "layers", "networks", "transposed", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
        Conv2dProblem p = shape.problem;
        p.type = type;
        if (!hopper_rows_decline(p, Direction::kWgrad, h200()).empty()) continue;
        for (const bool tf32 : {true, false}) {
          const auto all = texts_of(wgrad::make_plans(p, h200(), true, tf32));
          const auto best = texts_of(wgrad::best_plans(p, h200(), true, tf32, 8));
          ASSERT_EQ(best.size(), std::min<size_t>(all.size(), 8)) << p;
          ASSERT_TRUE(std::equal(best.begin(), best.end(), all.begin())) << p;
        }
      }
    }
  }
}

// A step sets all that it says, whatever plan the arguments were of before.
TEST(WgradPlanning, StepsRepeatedGiveWhatTheyGaveFirst) {
  const Conv2dProblem p = parse_shape("a n4c16h34w34 k64r3s3").problem;
  std::vector<wgrad::Plan> plans = wgrad::make_plans(p, h200(), false);
  const auto has_boxes = [](const wgrad::Plan& plan) { return plan.boxes; };
  ASSERT_TRUE(std::any_of(plans.begin(), plans.end(), has_boxes));
  ASSERT_FALSE(std::all_of(plans.begin(), plans.end(), has_boxes));
  wgrad::Arguments args = wgrad::start_arguments(p, false);
  for (const wgrad::Plan& plan : plans) {
    const wgrad::Arguments made = wgrad::make_arguments(p, plan).value();
    wgrad::set_columns(plan.instance, plan.mma_channels, plan.tile_runs, plan.tile_groups, args);
    wgrad::set_share(plan.share, args);
    const wgrad::Walks walks = wgrad::make_walks(args, plan.segment, plan.walk_rows);
    ASSERT_TRUE(wgrad::set_walks(walks, args) && wgrad::set_splits(walks, plan.splits, args))
        << plan;
    ASSERT_TRUE(wgrad::set_segment(plan.segment, false, args)) << plan;
    ASSERT_TRUE(wgrad::set_boxes(plan.boxes, args)) << plan;
    ASSERT_TRUE(wgrad::set_stages(plan.stages, args)) << plan;
    EXPECT_EQ(args.blocks(), made.blocks()) << plan;
    EXPECT_EQ(args.split_strips, made.split_strips) << plan;
    EXPECT_EQ(args.ring_cells, made.ring_cells) << plan;
    EXPECT_EQ(args.stage_bytes, made.stage_bytes) << plan;
    EXPECT_EQ(wgrad::shared_bytes(args), wgrad::shared_bytes(made)) << plan;
    EXPECT_EQ(args.boxes, made.boxes) << plan;
  }
}

TEST(WgradPlanning, ABestPlanKeepsItsArguments) {
  const Conv2dProblem p = parse_shape("a n4c16h34w34 k64r3s3").problem;
  int with_boxes = 0;
  for (const wgrad::Plan& plan : wgrad::best_plans(p, h200(), true, true, 8)) {
    ASSERT_NE(plan.lowered, nullptr) << plan;
    const wgrad::Lowered& kept = plan.lowered->get([&] { return wgrad::lower(p, plan); });
    EXPECT_EQ(kept.arguments.boxes, plan.boxes) << plan;
    EXPECT_EQ(kept.without_boxes.has_value(), plan.boxes) << plan;
    with_boxes += plan.boxes;
  }
  EXPECT_GT(with_boxes, 0);
  wgrad::Plan bad;
  bad.segment = 6;
  EXPECT_THROW(wgrad::lower(p, bad), std::logic_error);
}

TEST(WgradPlanning, AnEmptyTensorIsAnError) {
  Conv2dProblem p = parse_shape("a n2c16h20w20 k16r3s3").problem;
  p.k = 0;
  EXPECT_THROW(wgrad::make_plans(p, h200(), true), std::logic_error);
}

}  // namespace
}  // namespace haloconv::testing
