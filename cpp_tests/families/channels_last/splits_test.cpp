// Plans whose tiles several blocks share: where there are such, and that their splits have every
// product once. No GPU is needed.
#include "conv2d/families/channels_last/splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/plan.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

std::vector<Plan> split_plans_of(const Conv2dProblem& p, Direction direction = Direction::kFprop) {
  std::vector<Plan> plans = make_plans(p, direction, h200());
  std::erase_if(plans, [](const Plan& plan) {
    return !std::holds_alternative<Kept<SplitLaunch>>(plan.launch);
  });
  return plans;
}

TEST(ChannelsLastSplits, AreMadeWhereTilesAreFew) {
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
    const auto count = [&](const char* text, Direction direction = Direction::kFprop) {
      return split_plans_of(channels_last_problem(text, type), direction).size();
    };
    const char* const dcgan = "n128c256h8w8 k512r4s4 stride=2,2 pad=1,1,1,1";
    EXPECT_GE(count(dcgan), 1u);
    EXPECT_EQ(count(dcgan, Direction::kDgrad), 0u);
    EXPECT_EQ(count("n16c256h1w256 k512r1s16 stride=1,8 pad=0,0,4,4"), 2u);
    EXPECT_EQ(count("n64c256h56w56 k256r3s3 pad=1,1,1,1"), 0u) << "there are tiles enough";
    EXPECT_EQ(count("n1c64h8w8 k64r1s1"), 0u) << "there are few products";
  }
}

TEST(ChannelsLastSplits, HaveEachProductOnce) {
  for (const char* text : {"n2c72h9w11 k136r3s3 pad=1,1,1,1", "n1c512h7w7 k64r1s1",
                           "n16c256h1w256 k512r1s16 stride=1,8 pad=0,0,4,4"}) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
      const Conv2dProblem p = channels_last_problem(text, type);
      const std::vector<Plan> plans = split_plans_of(p);
      EXPECT_FALSE(plans.empty()) << p;
      for (const Plan& plan : plans) {
        const SplitArguments& args = std::get<Kept<SplitLaunch>>(plan.launch)->args;
        const int64_t chunks = (p.c + plan.tile.depth - 1) / plan.tile.depth;
        const int64_t stages = p.r * p.s * chunks;
        const int64_t last = stages - int64_t{args.splits - 1} * args.split_stages;
        EXPECT_GT(last, 0) << text_of(p, plan);
        EXPECT_LE(last, args.split_stages) << text_of(p, plan);
        EXPECT_EQ(args.taps_w.divisor, p.s);
        EXPECT_EQ(args.tiles.divisor, args.args.tiles);
        EXPECT_EQ(plan.workspace_bytes, args.splits * p.n * p.p() * p.q() * p.k * 4);
      }
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
