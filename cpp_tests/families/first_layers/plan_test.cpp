// The planner of first layers: what it declines, and that its plans fit the chip.
#include <gtest/gtest.h>

#include "chip/known_chips.h"
#include "conv2d/families/first_layers/plan.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace sm90::first_layers;

TEST(FirstLayersPlan, FitsTheChip) {
  int plans = 0;
  for (const char* file : {"first_layers", "networks", "edges", "layers"}) {
    for (const Shape& shape : load_shapes(file)) {
      Conv2dProblem p = shape.problem;
      p.type = DataType::kFloat16;
      for (const auto& [direction, channels_last] :
           {std::pair{Direction::kFprop, true}, std::pair{Direction::kWgrad, true},
            std::pair{Direction::kFprop, false}, std::pair{Direction::kWgrad, false}}) {
        p.set_dense_strides(channels_last);
        if (!declines(p, direction, true, h200()).empty()) continue;
        for (const Plan& plan : make_plans(p, direction, h200(), true)) {
          ++plans;
          const std::string text = text_of(shape, plan);
          const Sweep& sweep = plan.sweep();
          EXPECT_LE(plan.shared_bytes, 226 * 1024) << text;
          EXPECT_LE(sweep.ring, kMaxRing) << text;
          EXPECT_GT(sweep.ring, std::max(sweep.rows_of_tile(), sweep.rows_to_next()))
              << text << ": nobody could bring a row while a tile is computed";
          EXPECT_LE(sweep.runs, sweep.tiles) << text << ": a block has tiles";
          EXPECT_GT(plan.estimated_ms, 0) << text;
        }
      }
    }
  }
  EXPECT_GT(plans, 50);
}

TEST(FirstLayersPlan, WgradInTf32FitsTheChip) {
  int plans = 0;
  for (const char* file : {"first_layers", "networks", "edges", "layers"}) {
    for (const Shape& shape : load_shapes(file)) {
      Conv2dProblem p = shape.problem;
      p.type = DataType::kFloat32;
      p.set_dense_strides(true);
      if (!declines(p, Direction::kWgrad, true, h200()).empty()) continue;
      for (const Plan& plan : make_plans(p, Direction::kWgrad, h200(), true)) {
        ++plans;
        const std::string text = text_of(shape, plan);
        const WarpProductsArguments& args = *plan.warp_products;
        const Sweep& sweep = args.wgrad.sweep;
        EXPECT_LE(plan.shared_bytes, 226 * 1024) << text;
        EXPECT_GT(args.stages, args.groups())
            << text << ": nothing could come while all groups multiply";
        EXPECT_GE(args.column_warps * kWarpColumns, args.elements() + 1) << text;
        EXPECT_LE(args.pitch, 512) << text << ": the copy engine brings as much in a piece";
        EXPECT_LE(sweep.runs, sweep.tiles) << text << ": a block has tiles";
        EXPECT_GT(plan.estimated_ms, 0) << text;
      }
    }
  }
  EXPECT_GT(plans, 20);
}

TEST(FirstLayersPlan, DgradFitsTheChip) {
  constexpr DataType kTypes[] = {DataType::kFloat16, DataType::kFloat32};
  int plans = 0;
  for (const char* file : {"first_layers", "networks", "edges", "layers"}) {
    for (const TypedShape& shape : typed_shapes(file, kTypes)) {
      Conv2dProblem p = shape.problem;
      p.set_dense_strides(true);
      if (!declines(p, Direction::kDgrad, true, h200()).empty()) continue;
      for (const Plan& plan : make_plans(p, Direction::kDgrad, h200(), false)) {
        ++plans;
        const std::string text = text_of(shape, plan);
        const DgradArguments& args = plan.dgrad;
        EXPECT_LE(plan.shared_bytes, 224 * 1024) << text;
        EXPECT_GT(args.windows, args.chunks)
            << text << ": nobody could bring a window while a row is multiplied";
        EXPECT_LE(plan.dgrad_blocks, h200().multiprocessors) << text;
        EXPECT_GT(plan.estimated_ms, 0) << text;
      }
    }
  }
  EXPECT_GT(plans, 50);
}

TEST(FirstLayersPlan, TakesTheNetworksFirstLayers) {
  for (const char* text :
       {"n64c3h224w224 k64r7s7 stride=2,2 pad=3,3,3,3", "n32c3h224w224 k64r3s3 pad=1,1,1,1",
        "n4c3h512w512 k64r3s3 pad=1,1,1,1", "n64c3h224w224 k96r4s4 stride=4,4",
        "n64c3h224w224 k32r3s3 stride=2,2 pad=1,1,1,1"}) {
    Conv2dProblem p = channels_last_problem(text);
    EXPECT_FALSE(make_plans(p, Direction::kFprop, h200(), false).empty()) << p;
    EXPECT_FALSE(make_plans(p, Direction::kWgrad, h200(), true).empty()) << p;
    const std::vector<Plan> plans = make_plans(p, Direction::kDgrad, h200(), false);
    ASSERT_FALSE(plans.empty()) << p;
    EXPECT_FALSE(plans.front().dgrad.mends) << p << ": infinities would take long";
    p.type = DataType::kFloat32;
    EXPECT_FALSE(make_plans(p, Direction::kWgrad, h200(), true).empty()) << p;
    const std::vector<Plan> in_tf32 = make_plans(p, Direction::kDgrad, h200(), false);
    ASSERT_FALSE(in_tf32.empty()) << p;
    EXPECT_FALSE(in_tf32.front().dgrad.mends) << p;
  }
}

TEST(FirstLayersPlan, SaysWhyItDeclines) {
  const auto reason = [](const Conv2dProblem& p, Direction direction = Direction::kFprop) {
    return declines(p, direction, true, h200());
  };
  const Conv2dProblem taken = channels_last_problem("n2c3h16w16 k64r3s3");
  EXPECT_EQ(reason(taken), "");
  EXPECT_EQ(reason(taken, Direction::kWgrad), "");
  EXPECT_EQ(reason(taken, Direction::kDgrad), "");
  EXPECT_EQ(reason(channels_last_problem("n2c9h16w16 k64r3s3")),
            "it has more than 8 input channels");
  EXPECT_EQ(reason(channels_last_problem("n2c3h16w16 k12r3s3")),
            "its output channels are no multiple of 8");
  EXPECT_EQ(reason(channels_last_problem("n2c4h16w16 k64r3s3 groups=2")), "it has groups");
  EXPECT_EQ(reason(channels_last_problem("n2c3h30w30 k64r1s1 stride=9,9")),
            "its stride is more than 8");
  Conv2dProblem p = taken;
  p.type = DataType::kFloat32;
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(reason(p, Direction::kWgrad), "");
  EXPECT_EQ(reason(p, Direction::kDgrad), "");
  p.input.w = 4;
  EXPECT_EQ(reason(p, Direction::kWgrad), "the input's pixels do not follow each other");
  p.input = {.n = 16 * 50, .c = 1, .h = 50, .w = 3};
  EXPECT_EQ(reason(p, Direction::kWgrad), "the input's rows do not begin at multiples of 16 bytes");
  p.set_dense_strides(false);
  p.output = {.n = 64 * 14 * 16, .c = 14 * 16, .h = 16, .w = 1};
  EXPECT_EQ(reason(p, Direction::kWgrad), "it is a weight gradient of float32 with rows innermost");
  EXPECT_EQ(declines(p, Direction::kFprop, false, h200()), "TF32 is not allowed");
  p.type = DataType::kFloat64;
  EXPECT_EQ(reason(p), "the element type is none of float32, float16 and bfloat16");
  // Rows of 14 pixels are copied by elements alone.
  p = taken;
  p.set_dense_strides(false);
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(reason(p, Direction::kWgrad),
            "the strides of the output's gradient are no positive multiples of 8");
  p.output = {.n = 64 * 14 * 16, .c = 14 * 16, .h = 16, .w = 1};
  EXPECT_EQ(reason(p, Direction::kWgrad), "");
  EXPECT_EQ(reason(p, Direction::kDgrad), "");
  p.type = DataType::kFloat32;
  EXPECT_EQ(reason(p, Direction::kDgrad), "it is an input gradient of float32 with rows innermost");
  p.type = taken.type;
  p.output.w = 2;
  EXPECT_EQ(reason(p),
            "the output's channels are not innermost, or its strides no positive multiples of 8");
  // The input may lie as it likes, but not its gradient.
  p = taken;
  p.input = {.n = 16 * 16 * 8, .c = 2, .h = 16 * 8, .w = 8};
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(reason(p, Direction::kDgrad), "the input's pixels do not follow each other");
  EXPECT_EQ(reason(channels_last_problem("n2c3h30w30 k64r3s3 stride=5,5"), Direction::kDgrad),
            "its strides and input channels are more than 64 together");
  EXPECT_EQ(reason(channels_last_problem("n2c7h30w30 k64r3s3 stride=3,3", DataType::kFloat32),
                   Direction::kDgrad),
            "its strides and input channels are more than 48 together");
}

}  // namespace
}  // namespace haloconv::testing
