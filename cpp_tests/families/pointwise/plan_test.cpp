// The planner of the Hopper kernels for filters of one tap.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "chip/known_chips.h"
#include "conv2d/choice.h"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/pointwise/arguments.h"
#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using pointwise::Arguments;
using pointwise::Plan;
using pointwise::WgradArguments;
using pointwise::WgradPlan;

Conv2dProblem problem_of(const std::string& text, DataType type = DataType::kBFloat16) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.type = type;
  return problem;
}

std::vector<Plan> plans_of(const Conv2dProblem& whole, Direction direction = Direction::kFprop) {
  if (!hopper_rows_decline(whole, direction, h200()).empty()) return {};
  return pointwise::make_plans(flattened(whole), direction, h200());
}

std::vector<WgradPlan> wgrad_plans_of(const Conv2dProblem& whole, bool with_bias = false) {
  if (!hopper_rows_decline(whole, Direction::kWgrad, h200()).empty()) return {};
  return pointwise::make_wgrad_plans(flattened(whole), h200(), with_bias);
}

Arguments arguments_of(const Conv2dProblem& whole, Direction direction = Direction::kFprop) {
  const Conv2dProblem p = flattened(whole);
  return pointwise::make_arguments(p, plans_of(whole, direction).at(0)).value();
}

TEST(Sm90PointwisePlan, CoversTheResultOnce) {
  int taken = 0;
  for (const char* file :
       {"reference", "edges", "layers", "networks", "transposed", "one_dimensional"}) {
    for (Shape shape : load_shapes(file)) {
      shape.problem.type = DataType::kFloat16;
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        for (const Plan& plan : plans_of(shape.problem, direction)) {
          ++taken;
          const Conv2dProblem p = flattened(shape.problem);
          const Arguments args = pointwise::make_arguments(p, plan).value();
          const bool fprop = direction == Direction::kFprop;
          EXPECT_EQ(args.rows, fprop ? p.group_k() : p.group_c()) << shape << plan;
          EXPECT_EQ(args.depth, fprop ? p.group_c() : p.group_k()) << shape << plan;
          EXPECT_EQ(args.pixels, p.n * p.h * p.w) << shape << plan;
          EXPECT_GE(args.row_tiles * plan.tile.rows, args.rows) << shape << plan;
          EXPECT_LT((args.row_tiles - 1) * plan.tile.rows, args.rows) << shape << plan;
          EXPECT_GE(args.pixel_tiles * plan.tile.columns, args.pixels) << shape << plan;
          EXPECT_LT((args.pixel_tiles - 1) * plan.tile.columns, args.pixels) << shape << plan;
          EXPECT_EQ(args.tiles, p.groups * args.row_tiles * args.pixel_tiles) << shape << plan;
          EXPECT_EQ(p.w % args.pixel_unit, 0) << shape << plan;
          EXPECT_GT(plan.estimated_ms, 0) << shape << plan;
        }
      }
    }
  }
  EXPECT_GT(taken, 200);
}

TEST(Sm90PointwisePlan, CoversTheWeightGradientAndItsPixelsOnce) {
  int taken = 0;
  for (const char* file :
       {"reference", "edges", "layers", "networks", "transposed", "one_dimensional"}) {
    for (Shape shape : load_shapes(file)) {
      shape.problem.type = DataType::kBFloat16;
      for (const WgradPlan& plan : wgrad_plans_of(shape.problem, true)) {
        ++taken;
        const Conv2dProblem p = flattened(shape.problem);
        const WgradArguments args = pointwise::make_wgrad_arguments(p, plan).value();
        EXPECT_EQ(args.padded_rows, args.row_tiles * plan.tile.rows) << shape << plan;
        EXPECT_GE(args.padded_rows, p.group_k()) << shape << plan;
        EXPECT_LT(args.padded_rows - plan.tile.rows, p.group_k()) << shape << plan;
        EXPECT_EQ(args.padded_columns, args.column_tiles * plan.tile.columns) << shape << plan;
        EXPECT_GE(args.padded_columns, p.group_c()) << shape << plan;
        EXPECT_LT(args.padded_columns - plan.tile.columns, p.group_c()) << shape << plan;
        EXPECT_GE(int64_t{args.chunks} * pointwise::kDepth, args.pixels) << shape << plan;
        // Each split has chunks, and together they have all.
        EXPECT_LT(int64_t{args.splits - 1} * args.split_chunks, args.chunks) << shape << plan;
        EXPECT_GE(int64_t{args.splits} * args.split_chunks, args.chunks) << shape << plan;
        EXPECT_EQ(plan.splits, args.splits) << shape << plan;
        EXPECT_EQ(plan.workspace_bytes, pointwise::workspace_bytes(args, true)) << shape << plan;
        EXPECT_LT(plan.workspace_bytes, int64_t{64} << 20) << shape << plan;
        EXPECT_GT(plan.estimated_ms, 0) << shape << plan;
      }
    }
  }
  EXPECT_GT(taken, 100);
}

// The tensor core's sums truncate: the more, the longer they are. What their parts would take more
// memory for than a plan may is left to other kernels.
TEST(Sm90PointwisePlan, SplitsLongSums) {
  const auto plans = wgrad_plans_of(problem_of("n16c256h512w512 k256r1s1"));
  ASSERT_FALSE(plans.empty());
  for (const WgradPlan& plan : plans) EXPECT_GE(plan.splits, 128) << plan;
  EXPECT_TRUE(wgrad_plans_of(problem_of("n16c2048h512w512 k2048r1s1")).empty());
}

// Of each tile as many blocks as its kernels' registers allow; each block takes a KiB more.
TEST(Sm90PointwisePlan, TilesFitTheMultiprocessor) {
  const auto plans = plans_of(problem_of("n2c64h16w16 k64r1s1"));
  EXPECT_EQ(plans.size(), std::size(pointwise::kTiles));
  for (const Plan& plan : plans) {
    const int blocks = pointwise::blocks_of(plan.tile);
    const int bytes = pointwise::shared_bytes(plan.tile) + pointwise::kOnesBytes;
    EXPECT_LE(blocks * (bytes + 1024), kMaxShared + 1024) << plan;
    // The results of eight warps, 16 rows of up to 64 columns each, are staged where a chunk was.
    EXPECT_LE(8 * 16 *
                  std::min(64, plan.tile.rows == 128 ? plan.tile.columns : plan.tile.columns / 2) *
                  2,
              pointwise::chunk_bytes(plan.tile))
        << plan;
    EXPECT_LE(blocks * pointwise::kThreads, 2048) << plan;
    EXPECT_GE(pointwise::stages_of(plan.tile), 3) << plan;
  }
}

TEST(Sm90PointwisePlan, TakesFiltersOfOneTapThatStay) {
  const auto takes = [](const Conv2dProblem& p) {
    const bool fprop = !plans_of(p).empty();
    EXPECT_EQ(!plans_of(p, Direction::kDgrad).empty(), fprop) << p;
    return fprop;
  };
  EXPECT_TRUE(takes(problem_of("n2c16h9w9 k24r1s1")));
  EXPECT_TRUE(takes(problem_of("n2c16h9w9 k24r1s1", DataType::kFloat16)));
  EXPECT_TRUE(takes(problem_of("n2c16h9w9 k24r1s1 groups=2")));
  EXPECT_TRUE(takes(problem_of("n2c16h9w9 k24r1s1 dil=2,3")));
  EXPECT_FALSE(takes(problem_of("n2c16h9w9 k24r1s1", DataType::kFloat32)));
  EXPECT_FALSE(takes(problem_of("n2c16h9w9 k24r1s1 stride=2,2")));
  EXPECT_FALSE(takes(problem_of("n2c16h9w9 k24r1s1 pad=0,0,1,0")));
  EXPECT_FALSE(takes(problem_of("n2c16h9w9 k24r1s3")));
  EXPECT_FALSE(takes(problem_of("n4194304c8h16w32 k8r1s1")));  // 2^31 pixels
  Conv2dProblem rows_apart = problem_of("n2c16h9w9 k24r1s1");
  rows_apart.input.h = 10;
  EXPECT_FALSE(takes(rows_apart));
  Conv2dProblem filter_across = problem_of("n2c16h9w9 k24r1s1");
  filter_across.filter = {1, 24, 1, 1};
  EXPECT_FALSE(takes(filter_across));
}

// What is copied at once lies within a plane, at a multiple of its size, in source and destination.
TEST(Sm90PointwisePlan, CopiesAsManyNeighboursAsLieTogether) {
  EXPECT_EQ(arguments_of(problem_of("n2c64h56w56 k24r1s1")).pixel_unit, 8);
  EXPECT_EQ(arguments_of(problem_of("n2c64h14w14 k24r1s1")).pixel_unit, 4);
  EXPECT_EQ(arguments_of(problem_of("n2c64h6w7 k24r1s1")).pixel_unit, 2);
  EXPECT_EQ(arguments_of(problem_of("n2c64h7w7 k24r1s1")).pixel_unit, 1);
  EXPECT_EQ(arguments_of(problem_of("n2c64h7w7 k24r1s1")).filter_unit, 8);
  EXPECT_EQ(arguments_of(problem_of("n2c12h7w7 k24r1s1")).filter_unit, 4);
  EXPECT_EQ(arguments_of(problem_of("n2c13h7w7 k24r1s1")).filter_unit, 1);
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    Conv2dProblem apart = problem_of("n2c64h56w56 k24r1s1");
    apart.input.c += 2;
    EXPECT_EQ(arguments_of(apart, direction).pixel_unit, 2);
    apart = problem_of("n2c64h56w56 k24r1s1");
    apart.output.n += 4;
    EXPECT_EQ(arguments_of(apart, direction).pixel_unit, 4);
  }
}

TEST(Sm90PointwisePlan, HasNoLargestTileWhereSingleValuesAreCopied) {
  const auto has_largest = [](const Conv2dProblem& p) {
    const auto plans = plans_of(p);
    return std::any_of(plans.begin(), plans.end(),
                       [](const Plan& plan) { return plan.tile == pointwise::Tile{128, 128}; });
  };
  EXPECT_TRUE(has_largest(problem_of("n2c64h14w14 k24r1s1")));
  EXPECT_FALSE(has_largest(problem_of("n2c64h7w7 k24r1s1")));
}

TEST(Sm90PointwisePlan, IsTheFirstChoiceForManyChannelsAndFewPixels) {
  for (const Direction direction : {Direction::kDgrad, Direction::kWgrad}) {
    const Choice choice =
        choose({.problem = problem_of("n64c256h14w14 k1024r1s1"), .direction = direction}, "sm90");
    ASSERT_EQ(choice.candidates.front().name(), "pointwise");
    const haloconv::Plan& plan = *choice.candidates.front().plan;
    EXPECT_FALSE(plan.takes_fusion);
    EXPECT_EQ(plan.text().find(std::string(name_of(direction)) + " pointwise tile="), 0u);
  }
}

// The arguments that plans keep are those that they come to.
TEST(Sm90PointwisePlan, KeepsItsArguments) {
  const Conv2dProblem p = problem_of("n8c128h28w28 k128r1s1");
  const auto plans = plans_of(p);
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    const Arguments made = pointwise::make_arguments(flattened(p), plan).value();
    EXPECT_EQ(plan.arguments->tiles, made.tiles) << plan;
    EXPECT_EQ(plan.arguments->pixel_unit, made.pixel_unit) << plan;
  }
  const auto wgrad_plans = wgrad_plans_of(p, true);
  ASSERT_FALSE(wgrad_plans.empty());
  for (const WgradPlan& plan : wgrad_plans) {
    const WgradArguments made = pointwise::make_wgrad_arguments(flattened(p), plan).value();
    EXPECT_EQ(plan.arguments->splits, made.splits) << plan;
    EXPECT_EQ(plan.arguments->split_chunks, made.split_chunks) << plan;
  }
}

}  // namespace
}  // namespace haloconv::testing
