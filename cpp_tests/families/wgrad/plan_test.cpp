// The planner of the Hopper weight gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/arguments.h"
#include "cpp_tests/families/wgrad/each_plan.h"
#include "cpp_tests/families/wgrad/shifting_plans.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using wgrad::Arguments;
using wgrad::Block;
using wgrad::Plan;

Conv2dProblem problem_of(const std::string& text) { return parse_shape("a " + text).problem; }

// Where rows begin at less than whole 16 bytes: whole segments begin where more is copied at once,
// and all segments of a row together have each of its pixels once.
void expect_each_pixel_once(const Conv2dProblem& p, const Plan& plan, const Arguments& args) {
  std::map<std::pair<int32_t, int32_t>, std::vector<int>> found;  // by image and row
  for (int32_t strip = 0; strip < args.strips; ++strip) {
    const int32_t shift = args.shift_of(args.step_of(strip));
    ASSERT_LE(shift, args.most_shift) << p << plan;
    for (int32_t j = 0; j < args.segments; ++j) {
      const wgrad::Segment at = args.segment_at(strip, j, args.segments);
      if (!at.exists) continue;
      std::vector<int>& row = found[{at.image, at.row}];
      row.resize(static_cast<size_t>(args.q), 0);
      const bool whole = at.column < args.whole_segments * args.segment;
      if (whole) {
        const int64_t first = int64_t{at.row} * args.output_p + args.pixel_column(at, 0, shift);
        ASSERT_EQ(first % args.whole_vector, 0) << p << plan;
      }
      for (int32_t i = 0; i < (whole ? args.segment : args.short_pixels); ++i) {
        ++row.at(static_cast<size_t>(args.pixel_column(at, i, shift)));
      }
    }
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(p.n * p.p())) << p << plan;
  for (const auto& [row, times] : found) {
    ASSERT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << p << plan;
  }
}

TEST(Sm90WgradPlan, SegmentsShiftToWholeVectors) {
  std::set<std::pair<int, int>> vectors_and_shifts;
  std::set<wgrad::Share> shares;
  for (const Shape& shape : shifted_shapes()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem p = shape.problem;
      p.type = type;
      for (const Plan& plan : shifting_plans(p, true)) {
        const Arguments args = wgrad::make_arguments(p, plan).value();
        EXPECT_GT(args.whole_vector, args.output_vector) << p << plan;
        expect_each_pixel_once(p, plan, args);
        shares.insert(plan.share);
        vectors_and_shifts.emplace(args.whole_vector, args.row_shift);
      }
    }
  }
  EXPECT_EQ(shares, (std::set{wgrad::Share::kChannels, wgrad::Share::kPixels}));
  EXPECT_EQ(vectors_and_shifts, (std::set<std::pair<int, int>>{{4, 2}, {8, 2}, {8, 4}, {8, 6}}));
}

// What is worth being timed of the problem whose bound the copies are.
TEST(Sm90WgradPlan, SegmentsShiftWhereCopiesAreTheBound) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = problem_of("n16c16h1024w1024 k128r3s3");
    p.type = type;
    const std::vector<Plan> plans = wgrad::best_plans(p, h200(), true, true, 8);
    EXPECT_TRUE(std::ranges::any_of(plans, [&](const Plan& plan) {
      return wgrad::make_arguments(p, plan)->row_shift > 0;
    })) << p;
  }
}

TEST(Sm90WgradPlan, SplitsTakeTurnsWhereMemoryIsTheBound) {
  int plans = 0;
  for_each_plan({"reference", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                               const Plan& plan, const Arguments& args) {
    EXPECT_EQ(args.split_flights > 1, plan.walk_rows > 0 && args.split_strips > args.walk_rows)
        << shape << plan;
    if (plan.walk_rows > 0) ++plans;
  });
  EXPECT_GT(plans, 5);
}

TEST(Sm90WgradPlan, EveryPlanFitsTheMultiprocessorAndCoversThePixels) {
  for_each_plan(
      {"reference", "edges", "layers", "networks"},
      [](const Shape& shape, const Conv2dProblem& p, const Plan& plan, const Arguments& args) {
        EXPECT_LE(wgrad::shared_bytes(args), kMaxShared) << shape << plan;
        EXPECT_GE(plan.stages, wgrad::kMinStages) << shape << plan;
        EXPECT_LE(plan.tile_runs * plan.tile_groups, args.block_instructions()) << plan;
        EXPECT_GE(int64_t{args.strips} * args.segments * args.segment, p.n * p.p() * p.q())
            << shape << plan;
        // Each split has strips, and together they have all.
        EXPECT_LT(int64_t{args.splits - 1} * args.split_strips, args.strips) << shape << plan;
        EXPECT_GE(int64_t{args.splits} * args.split_strips, args.strips) << shape << plan;
        EXPECT_EQ(plan.splits, args.splits) << shape << plan;
        EXPECT_EQ(plan.workspace_bytes, wgrad::workspace_bytes(args, true)) << shape << plan;
      });
}

// What is multiplied of a strip's segments is what the output has of them: no zero of the kernel's
// own meets a pixel of the input.
TEST(Sm90WgradPlan, SegmentsOfAStripEndAlike) {
  int short_strips = 0;
  for_each_plan({"edges", "networks"}, [&](const Shape& shape, const Conv2dProblem& p,
                                           const Plan& plan, const Arguments& args) {
    const int32_t multiplied = args.short_pixels_of[0] +
                               (plan.share == wgrad::Share::kPixels ? args.short_pixels_of[1] : 0);
    ASSERT_EQ(multiplied, p.q() % plan.segment) << shape << plan;
    for (const int32_t split : {0, args.splits / 2, args.splits - 1}) {
      const int32_t strips = args.strips_of(split);
      for (int32_t i = 0; i < strips; ++i) {
        const bool is_short = strips - i <= args.short_strips_of(split);
        short_strips += is_short;
        for (int32_t j = 0; j < args.segments; ++j) {
          const wgrad::Segment at = args.segment_at(args.first_strip(split) + i, j, args.segments);
          if (!at.exists) continue;
          ASSERT_EQ(std::min<int64_t>(p.q() - at.column, plan.segment),
                    is_short ? multiplied : plan.segment)
              << shape << plan;
        }
      }
    }
  });
  EXPECT_GT(short_strips, 0);
}

TEST(Sm90WgradPlan, PlansAreSortedByTheirEstimate) {
  for (const Shape& shape : load_shapes("reference")) {
    const auto plans = wgrad::make_plans(shape.problem, h200(), false);
    ASSERT_GT(plans.size(), 10u) << shape;
    for (size_t i = 1; i < plans.size(); ++i) {
      EXPECT_LE(plans[i - 1].estimated_ms, plans[i].estimated_ms) << shape;
    }
  }
}

TEST(Sm90WgradPlan, PartialSumsOfTheReferenceProblemsAreUnder64MiB) {
  for_each_plan({"reference"},
                [](const Shape& shape, const Conv2dProblem&, const Plan& plan, const Arguments&) {
                  EXPECT_LT(plan.workspace_bytes, int64_t{64} << 20) << shape << plan;
                });
}

// With Share::kColumns both warpgroups have instructions with columns of their own.
TEST(Sm90WgradPlan, WarpgroupsShareColumns) {
  int plans = 0;
  for_each_plan({"reference", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                               const Plan& plan, const Arguments& args) {
    if (plan.share != wgrad::Share::kColumns) return;
    ++plans;
    Block b{};
    args.set_columns(b, 0);
    EXPECT_EQ(args.first_instruction_of(1), plan.instance.instructions) << shape << plan;
    EXPECT_FALSE(args.mma_columns(b, args.first_instruction_of(1)).idle) << shape << plan;
    EXPECT_EQ(args.first_pixel_of(1), 0) << shape << plan;
    EXPECT_EQ(args.row_group_of(b, 1), args.row_group_of(b, 0)) << shape << plan;
  });
  EXPECT_GT(plans, 100);
}

// Those of the reference problems that products bound, with 64 output channels and with 128.
TEST(Sm90WgradPlan, WideFiltersShareColumns) {
  for (const char* name : {"asym_5x7", "dilated_5x9", "asym_5x9"}) {
    const std::vector<Shape> shapes = load_shapes("reference");
    const auto shape = std::ranges::find(shapes, name, &Shape::name);
    ASSERT_NE(shape, shapes.end());
    EXPECT_EQ(wgrad::make_plans(shape->problem, h200(), true).front().share, wgrad::Share::kColumns)
        << name;
  }
}

TEST(Sm90WgradPlan, BoxesAreOfDenseTensorsAlone) {
  const auto has_boxes = [](const Conv2dProblem& p) {
    EXPECT_EQ(wgrad_declines(p), "");
    const auto plans = wgrad::make_plans(p, h200(), false);
    return std::ranges::any_of(plans, [](const Plan& plan) { return plan.boxes; });
  };
  const Conv2dProblem p = problem_of("n4c16h34w34 k64r3s3");
  EXPECT_TRUE(has_boxes(p));
  Conv2dProblem expanded = p, turned = p, pitched = p;
  expanded.output.n = 0;
  turned.output.n = 32 * 32;
  turned.output.c = 4 * 32 * 32;
  pitched.output.c += 2;  // channels begin at 8 bytes of 16
  EXPECT_FALSE(has_boxes(expanded));
  EXPECT_FALSE(has_boxes(turned));
  EXPECT_FALSE(has_boxes(pitched));
}

TEST(Sm90WgradPlan, BoxesCanBeLeftOut) {
  for_each_plan({"reference", "edges", "networks"}, [](const Shape& shape, const Conv2dProblem& p,
                                                       const Plan& plan, const Arguments& args) {
    if (!plan.boxes) return;
    const Plan without = wgrad::without_boxes(p, plan);
    const auto made = wgrad::make_arguments(p, without);
    ASSERT_TRUE(made) << shape << plan;
    EXPECT_FALSE(made->boxes) << shape << plan;
    EXPECT_GE(without.stages, wgrad::kMinStages) << shape << plan;
    EXPECT_LE(wgrad::shared_bytes(*made), kMaxShared) << shape << plan;
    EXPECT_LE(wgrad::workspace_bytes(*made, true), wgrad::workspace_bytes(args, true))
        << shape << plan;
  });
}

TEST(Sm90WgradPlan, DeclinesWithItsReason) {
  const Conv2dProblem p = problem_of("n2c16h20w20 k16r3s3");
  EXPECT_EQ(wgrad_declines(p), "");
  EXPECT_EQ(wgrad_declines(problem_of("n2c16h20w20 k16r3s3 stride=2,2")), "");
  EXPECT_EQ(wgrad_declines(p, chip_of("NVIDIA A10")),
            "the device is not of compute capability 9.0 but of 8.6");
  Conv2dProblem half = p;
  half.type = DataType::kFloat16;
  EXPECT_EQ(wgrad_declines(half), "");
  EXPECT_NE(wgrad_declines(problem_of("n2c16h20w20 k16r3s3 groups=4")).find("fewer than 8"),
            std::string::npos);
  EXPECT_NE(wgrad_declines(problem_of("n2c16h90w90 k16r3s3 stride=9,9")).find("over 8"),
            std::string::npos);
  Conv2dProblem last = p;
  last.set_dense_strides(true);
  EXPECT_NE(wgrad_declines(last).find("contiguous"), std::string::npos);
  Conv2dProblem expanded = p;
  expanded.output = {0, 0, 0, 0};
  EXPECT_NE(wgrad_declines(expanded).find("contiguous"), std::string::npos);
}

// The window of a row of taps is larger than shared memory.
TEST(Sm90WgradPlan, HasNoPlanWhereTheWindowDoesNotFit) {
  const Conv2dProblem p = problem_of("n1c8h8w9000 k8r1s3 dil=1,4000");
  EXPECT_EQ(wgrad_declines(p), "");
  EXPECT_TRUE(wgrad::make_plans(p, h200(), false).empty());
}

TEST(Sm90WgradPlan, Prints) {
  std::ostringstream text;
  text << wgrad::make_plans(problem_of("n2c16h20w20 k16r3s3"), h200(), false).front();
  EXPECT_NE(text.str().find("wgrad instructions="), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("workspace="), std::string::npos) << text.str();
}

}  // namespace
}  // namespace haloconv::testing
