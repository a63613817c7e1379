// The planner of weight gradients by windows of the input: what it declines, that its splits cover
// the patches and fit each chip, and that warps have every tap of every channel once.
#include "conv2d/families/implicit_gemm/windows_wgrad/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using windows_wgrad::Arguments;
using windows_wgrad::Plan;

std::vector<Plan> plans_of(const Conv2dProblem& p, const Chip& chip) {
  if (!windows_wgrad::declines(p, Direction::kWgrad, chip, true).empty()) return {};
  return windows_wgrad::make_plans(p, chip, true, true);
}

void check_plan(const Conv2dProblem& p, const Plan& plan, const Chip& chip) {
  const Arguments& args = plan.args;
  const int64_t patches =
      p.n * ceil_div(p.p(), args.patch_rows) * ceil_div(p.q(), implicit_gemm::kPatchColumns);
  EXPECT_EQ(args.patches, patches) << text_of(p, plan);
  EXPECT_GE(int64_t{args.splits} * args.split_patches, patches) << text_of(p, plan);
  EXPECT_LT(int64_t{args.splits - 1} * args.split_patches, patches) << text_of(p, plan);
  const int64_t chunk = args.forward.windows.units() * implicit_gemm::unit_elements(p.type);
  EXPECT_GE(args.forward.windows.chunks * chunk, p.group_c()) << text_of(p, plan);
  EXPECT_GE(args.tap_tiles * (plan.tile.columns / chunk), p.r * p.s) << text_of(p, plan);
  EXPECT_GE(args.row_tiles * plan.tile.rows, p.group_k()) << text_of(p, plan);
  EXPECT_EQ(plan.workspace_bytes, args.splits * args.split_elements() * 4) << text_of(p, plan);
  EXPECT_GT(plan.estimated_ms, 0) << text_of(p, plan);
  EXPECT_LE(windows_wgrad::shared_bytes(plan.tile, args, static_cast<int>(size_of(p.type))),
            chip.shared_bytes_per_block)
      << text_of(p, plan);
}

// Also on chips whose blocks have 99 or 163 KB.
TEST(WindowsWgradPlan, CoversThePatchesAndFitsEachChip) {
  for (const KnownChip& known : known_chips()) {
    const Chip chip = chip_of(known.name);
    size_t count = 0;
    for (const char* file : {"reference", "edges", "eights", "layers", "networks"}) {
      for (const Shape& shape : load_shapes(file)) {
        for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
          Conv2dProblem p = shape.problem;
          p.type = type;
          for (const Plan& plan : plans_of(p, chip)) {
            ++count;
            check_plan(p, plan, chip);
          }
        }
      }
    }
    if (chip.compute_capability >= 80) {
      EXPECT_GT(count, 0u) << known.name;
    }
  }
}

TEST(WindowsWgradPlan, SaysWhyItDeclines) {
  const auto reason = [](const char* text, Direction direction = Direction::kWgrad) {
    Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
    p.type = DataType::kBFloat16;
    return windows_wgrad::declines(p, direction, h200(), true);
  };
  EXPECT_EQ(reason("n2c64h8w8 k64r3s3"), "");
  EXPECT_EQ(reason("n2c64h8w8 k64r3s3", Direction::kFprop), "it computes weight gradients only");
  EXPECT_EQ(reason("n2c64h8w8 k64r3s3 groups=16"), "a group has fewer than 8 channels");
  EXPECT_EQ(reason("n2c64h8w8 k64r3s3 stride=1,2"), "it has a stride");
  EXPECT_EQ(reason("n2c64h8w8 k64r1s1"), "it has one tap");
}

// Rows of 16-bit elements begin at multiples of 4 bytes, or there is no plan.
TEST(WindowsWgradPlan, TakesRowsThatCopiesCanBring) {
  const auto plans = [](const char* text, DataType type, bool channels_last = false) {
    Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
    p.type = type;
    p.set_dense_strides(channels_last);
    return plans_of(p, h200()).size();
  };
  EXPECT_GT(plans("n2c16h8w10 k16r3s3 pad=1,1,1,1", DataType::kBFloat16), 0u);
  EXPECT_EQ(plans("n2c16h8w9 k16r3s3 pad=1,1,1,1", DataType::kBFloat16), 0u);
  EXPECT_EQ(plans("n2c16h8w10 k16r3s2 pad=1,1,1,1", DataType::kBFloat16), 0u);
  EXPECT_GT(plans("n2c16h8w9 k16r3s3 pad=1,1,1,1", DataType::kFloat32), 0u);
  EXPECT_EQ(plans("n2c16h8w10 k16r3s3 pad=1,1,1,1", DataType::kFloat32, true), 0u);
}

// What was measured on an H100 with a bias, of all plans the fastest.
struct Fastest {
  const char* name;
  DataType type;
  windows_wgrad::Tile tile;
  int patch_rows, units;
  double ms;
};
constexpr DataType kBf16 = DataType::kBFloat16, kFloat = DataType::kFloat32;
constexpr Fastest kFastest[] = {
    {"square_3x3", kBf16, {128, 160}, 8, 2, 4.41},   {"asym_5x7", kBf16, {128, 256}, 16, 4, 2.68},
    {"dilated_5x9", kBf16, {64, 512}, 16, 4, 1.56},  {"asym_5x9", kBf16, {64, 512}, 16, 4, 1.33},
    {"square_3x3", kFloat, {128, 160}, 8, 4, 7.02},  {"asym_5x7", kFloat, {64, 320}, 16, 2, 5.57},
    {"dilated_5x9", kFloat, {64, 512}, 16, 2, 3.73}, {"asym_5x9", kFloat, {64, 512}, 16, 2, 3.78}};

// A forced group is not timed: the first plan runs.
TEST(WindowsWgradPlan, HasTheFastestFirst) {
  constexpr double kDoubt = 1.2;  // that is added to estimates on this chip
  const std::vector<Shape> shapes = load_shapes("reference");
  for (const Fastest& fastest : kFastest) {
    const auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& candidate) {
      return candidate.name == fastest.name;
    });
    ASSERT_NE(shape, shapes.end()) << fastest.name;
    Conv2dProblem p = shape->problem;
    p.type = fastest.type;
    const Plan first = plans_of(p, chip_of("NVIDIA H100 80GB HBM3")).front();
    EXPECT_EQ(first.tile, fastest.tile) << text_of(p, first);
    EXPECT_EQ(first.args.patch_rows, fastest.patch_rows) << text_of(p, first);
    EXPECT_EQ(first.args.forward.windows.units(), fastest.units) << text_of(p, first);
    EXPECT_NEAR(first.estimated_ms / kDoubt, fastest.ms, 0.06 * fastest.ms) << text_of(p, first);
  }
}

}  // namespace
}  // namespace haloconv::testing
