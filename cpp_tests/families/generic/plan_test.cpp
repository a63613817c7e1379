#include "conv2d/families/generic/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "chip/known_chips.h"
#include "conv2d/choice.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/limits.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const char* file : {"reference", "edges", "layers"}) {
    for (Shape& shape : load_shapes(file)) shapes.push_back(std::move(shape));
  }
  return shapes;
}

TEST(Plan, EveryKernelPlansEveryShape) {
  for (const Shape& shape : all_shapes()) {
    for (const Direction direction : kDirections) {
      for (const generic::Kernel kernel : generic::kAllKernels) {
        const generic::Plan plan =
            generic::make_plan(shape.problem, direction, h200(), true, kernel);
        EXPECT_GT(plan.estimated_ms, 0) << shape << plan;
        EXPECT_GT(plan.workspace_bytes, 0) << shape << plan;
        EXPECT_FALSE(std::isinf(plan.estimated_ms)) << shape << plan;
      }
    }
  }
}

TEST(Plan, TakesTheKernelThatTheModelExpectsToBeFastest) {
  for (const Shape& shape : all_shapes()) {
    for (const Direction direction : kDirections) {
      const generic::Plan best = generic::make_plan(shape.problem, direction, h200());
      for (const generic::Kernel kernel : generic::kAllKernels) {
        EXPECT_LE(best.estimated_ms,
                  generic::make_plan(shape.problem, direction, h200(), false, kernel).estimated_ms)
            << shape << best;
      }
    }
  }
}

TEST(Plan, WgradSplitsCoverEveryPixelOnce) {
  for (const Shape& shape : all_shapes()) {
    const Conv2dProblem& p = shape.problem;
    const int64_t pixels = p.n * p.p() * p.q();
    for (const generic::Kernel kernel : generic::kAllKernels) {
      const generic::Plan plan = generic::make_plan(p, Direction::kWgrad, h200(), true, kernel);
      EXPECT_GE(plan.splits * plan.split_pixels, pixels) << shape << plan;
      EXPECT_LT((plan.splits - 1) * plan.split_pixels, pixels) << shape << plan;
      const int64_t partial_sums = p.k * (p.group_c() * p.r * p.s + 1);
      EXPECT_EQ(plan.workspace_bytes, plan.splits * partial_sums * 4) << shape << plan;
      EXPECT_LE(plan.workspace_bytes, std::max<int64_t>(32 << 20, partial_sums * 4)) << shape;
    }
  }
}

TEST(Plan, PackedFilterHoldsEveryTapOfEveryGroup) {
  for (const Shape& shape : all_shapes()) {
    const Conv2dProblem& p = shape.problem;
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      for (const generic::Kernel kernel : generic::kAllKernels) {
        const generic::Plan plan = generic::make_plan(p, direction, h200(), false, kernel);
        const generic::PackedShape packed =
            generic::packed_shape(p, plan, make_phases(p, direction));
        EXPECT_GE(packed.group_elements, p.group_k() * p.group_c() * p.r * p.s) << shape << plan;
        EXPECT_EQ(plan.workspace_bytes, packed.group_elements * p.groups * 4) << shape << plan;
        EXPECT_EQ(packed.pitch % packed.rows, 0);
      }
    }
  }
}

TEST(Plan, DepthwiseLayersHaveAFamilyOfTheirOwn) {
  const auto plan = [](const std::string& text, Direction direction, bool channels_last = false) {
    Conv2dProblem p = parse_shape("a n16c64h512w512 k64" + text + " groups=64").problem;
    p.set_dense_strides(channels_last);
    const Choice choice = choose({.problem = p, .direction = direction}, "generic");
    return std::string(choice.candidates.front().name()) + ": " +
           choice.candidates.front().plan->text();
  };
  const std::string padded = "r3s3 pad=1,1,1,1", strided = padded + " stride=2,2";
  for (const Direction direction : kDirections) {
    EXPECT_EQ(plan(padded, direction).find("depthwise: "), 0u);
    EXPECT_NE(plan(padded, direction, true).find("kernel=depthwise_nhwc "), std::string::npos);
  }
  EXPECT_EQ(plan(strided, Direction::kFprop).find("depthwise_direct: fprop rows"), 0u);
  EXPECT_NE(plan(strided, Direction::kDgrad).find("kernel=depthwise "), std::string::npos);
  for (const Direction direction : {Direction::kFprop, Direction::kWgrad}) {
    EXPECT_NE(plan(strided, direction, true).find("kernel=depthwise_nhwc "), std::string::npos);
  }
  EXPECT_NE(plan("r3s6", Direction::kFprop).find("kernel=direct"), std::string::npos);
}

TEST(Plan, DepthwiseKernelsHavePartialSumsOfWeightGradientsAlone) {
  for (const Shape& shape : all_shapes()) {
    for (const Direction direction : kDirections) {
      for (const FamilyPlan& of :
           plans_of("depthwise", {.problem = shape.problem, .direction = direction})) {
        EXPECT_EQ(of.plan->workspace_bytes > 0, direction == Direction::kWgrad) << shape << of;
        EXPECT_GT(of.plan->estimated_ms, 0) << shape << of;
      }
    }
  }
}

TEST(Plan, DepthwiseDeclinesWithTheReason) {
  const auto reason = [](const std::string& text, DataType type = DataType::kFloat32) {
    Conv2dProblem p = parse_shape("a " + text).problem;
    p.type = type;
    for (const Reply& reply : choose({.problem = p}, "depthwise").replies) {
      if (reply.family != nullptr && reply.family->name == "depthwise") {
        return reply.answer.declined;
      }
    }
    return std::string("no family has this name");
  };
  EXPECT_EQ(reason("n1c8h9w9 k8r3s3 groups=8"), "");
  EXPECT_NE(reason("n1c8h9w9 k8r3s3 groups=8", DataType::kFloat64).find("float64"),
            std::string::npos);
  EXPECT_NE(reason("n1c8h9w9 k8r3s3").find("more than one channel"), std::string::npos);
  EXPECT_NE(reason("n1c8h9w9 k8r3s6 groups=8").find("3, 4, 5 or 7 wide"), std::string::npos);
  EXPECT_NE(reason("n1c8h9w9 k8r3s3 groups=8 dil=2,2").find("dilation"), std::string::npos);
  EXPECT_NE(reason("n1c8h19w19 k8r3s3 groups=8 stride=5,5").find("stride"), std::string::npos);
}

TEST(Plan, TheModelKnowsTheChip) {
  const Conv2dProblem p = load_shapes("reference")[1].problem;
  Chip smaller = h200();
  smaller.multiprocessors /= 2;
  const double whole = generic::make_plan(p, Direction::kFprop, h200()).estimated_ms;
  const double half = generic::make_plan(p, Direction::kFprop, smaller).estimated_ms;
  EXPECT_NEAR(half / whole, 2, 0.1);
  Conv2dProblem float64 = p;
  float64.type = DataType::kFloat64;
  EXPECT_GT(generic::make_plan(float64, Direction::kFprop, chip_of("NVIDIA GeForce RTX 3090"))
                .estimated_ms,
            10 * generic::make_plan(float64, Direction::kFprop, h200()).estimated_ms);
}

TEST(Plan, DeclinesWithTheNumberThatIsTooLarge) {
  const auto reason = [](const std::string& text, Direction direction = Direction::kFprop) {
    return beyond_limits(parse_shape("a " + text).problem, direction);
  };
  EXPECT_EQ(reason("n1c1h8w8 k1r3s3"), "");
  EXPECT_NE(reason("n1c1h8w200000000 k1r3s3").find("width is 200000000"), std::string::npos);
  EXPECT_NE(reason("n1c1h65536w65536 k1r3s3").find("pixels of an input image is 4294967296"),
            std::string::npos);
  EXPECT_NE(reason("n0c1h8w8 k1r3s3").find("no element"), std::string::npos);
  EXPECT_EQ(reason("n1c1h100w100 k1r1s1 stride=100,100"), "");
  EXPECT_NE(reason("n1c1h100w100 k1r1s1 stride=100,100", Direction::kDgrad).find("phases is 10000"),
            std::string::npos);
  // Sums of these would pass 64 bits.
  Conv2dProblem huge = parse_shape("a n1c1h9w9 k1r3s3").problem;
  huge.dilation_h = INT64_MAX;
  EXPECT_NE(beyond_limits(huge, Direction::kFprop), "");
  huge = parse_shape("a n1c1h9w9 k1r3s3").problem;
  huge.pad_top = huge.pad_bottom = INT64_MAX;
  EXPECT_NE(beyond_limits(huge, Direction::kFprop), "");
  // The gradient of a weight that is not there yet, 2^64 elements.
  huge = parse_shape("a n1c1024h1w1 k1024r1s1").problem;
  huge.r = huge.s = int64_t{1} << 27;
  huge.pad_top = huge.pad_left = huge.r - 1;
  EXPECT_NE(beyond_limits(huge, Direction::kWgrad), "");
  Conv2dProblem other = parse_shape("a n1c1h8w8 k1r3s3").problem;
  other.type = DataType::kOther;
  EXPECT_NE(beyond_limits(other, Direction::kFprop).find("element type"), std::string::npos);
}

// 2^27 groups of 16 phases each: more blocks than a grid has.
TEST(Plan, ExpectsForeverWhereNoGridIsLargeEnough) {
  const Conv2dProblem p =
      parse_shape("a n1c134217728h4w4 k134217728r1s1 stride=4,4 groups=134217728").problem;
  EXPECT_EQ(beyond_limits(p, Direction::kDgrad), "");
  EXPECT_TRUE(std::isinf(generic::make_plan(p, Direction::kDgrad, h200()).estimated_ms));
}

TEST(Plan, Prints) {
  std::ostringstream text;
  text << generic::make_plan(load_shapes("reference")[0].problem, Direction::kWgrad, h200(), true);
  for (const char* part : {"wgrad", "kernel=", "splits=", "with_bias", "workspace="}) {
    EXPECT_NE(text.str().find(part), std::string::npos) << text.str();
  }
}

TEST(Plan, AnEmptyTensorIsAnError) {
  for (const Shape& shape : load_shapes("empty")) {
    EXPECT_THROW(generic::make_plan(shape.problem, Direction::kFprop, h200()), std::logic_error);
    EXPECT_THROW(generic::make_plan(shape.problem, Direction::kWgrad, h200(), true,
                                    generic::Kernel::kDirect),
                 std::logic_error);
  }
}

}  // namespace
}  // namespace haloconv::testing
