// Filters that stay in shared memory: blocks have each tile once, change their filter as rarely as
// they can, and what they keep fits. No GPU is needed.
#include "conv2d/families/channels_last/staying.h"

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

std::vector<Plan> staying_plans_of(const char* text, Direction direction,
                                   DataType type = DataType::kBFloat16) {
  std::vector<Plan> plans = make_plans(channels_last_problem(text, type), direction, h200());
  std::erase_if(plans, [](const Plan& plan) { return !plan.has_staying_filter(); });
  return plans;
}

TEST(ChannelsLastStayingPlan, IsForOneTapAndAFilterThatFits) {
  const Direction fprop = Direction::kFprop, dgrad = Direction::kDgrad;
  EXPECT_EQ(staying_plans_of("n64c1024h14w14 k256r1s1", dgrad).size(), 3u);
  EXPECT_EQ(staying_plans_of("n64c256h14w14 k1024r1s1", fprop).size(), 3u);
  EXPECT_EQ(staying_plans_of("n64c1024h14w14 k512r1s1", dgrad).size(), 2u);
  EXPECT_TRUE(staying_plans_of("n64c256h14w14 k1024r1s1", dgrad).empty());
  EXPECT_TRUE(staying_plans_of("n64c64h14w14 k64r3s3 pad=1,1,1,1", dgrad).empty());
  EXPECT_TRUE(staying_plans_of("n64c64h14w14 k64r1s1 stride=2,2", dgrad).empty()) << "phases";
  EXPECT_TRUE(staying_plans_of("n64c64h14w14 k64r1s1", dgrad, DataType::kFloat32).empty());
}

TEST(ChannelsLastStayingPlan, PrefetchesForBlocksOfSeveralLargeTilesAlone) {
  for (const Plan& plan : staying_plans_of("n64c672h7w7 k192r1s1", Direction::kDgrad)) {
    const Arguments& args = std::get<Kept<StayingLaunch>>(plan.launch)->launch.args;
    const bool is_large = plan.tile.pixels > 64, has_several = args.tiles > h200().multiprocessors;
    EXPECT_EQ(args.prefetched_stages, is_large && has_several ? 2 : 0) << plan;
  }
}

TEST(ChannelsLastStayingPlan, FitsSharedMemory) {
  for (const char* text : {"n64c1024h14w14 k256r1s1", "n64c144h28w28 k40r1s1",
                           "n64c2048h7w7 k512r1s1", "n1c8h3w3 k8r1s1", "n2c384h9w9 k520r1s1"}) {
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      for (const Plan& plan : staying_plans_of(text, direction)) {
        const StayingLaunch& staying = *std::get<Kept<StayingLaunch>>(plan.launch);
        const Arguments& args = staying.launch.args;
        const int64_t units = staying.filter_units * plan.tile.channels;
        const int64_t bytes = (units + int64_t{args.stages} * plan.tile.pixels) * kStageRowBytes +
                              (staying.launch.copies_results ? staged_bytes(plan.tile) : 0);
        EXPECT_LE(bytes, kMostAlternatingBytes) << plan;
        EXPECT_GE(args.stages, 4) << plan;
        EXPECT_GE(units / plan.tile.channels * plan.tile.depth, args.channels) << plan;
        EXPECT_GT(staying.blocks, 0) << plan;
        EXPECT_LE(staying.blocks, std::min(args.tiles, h200().multiprocessors)) << plan;
      }
    }
  }
}

TEST(ChannelsLastStayingTiles, HaveEachTileOnceAndChangeTheFilterRarely) {
  for (const int32_t channel_tiles : {1, 2, 3, 5, 8, 9, 40}) {
    for (const int32_t pixel_tiles : {1, 4, 7, 66, 131, 132, 133, 1000}) {
      for (const int32_t most : {1, 4, 128, 132}) {
        const int32_t tiles = channel_tiles * pixel_tiles, blocks = std::min(tiles, most);
        std::vector<int> counts(tiles);
        for (int32_t block = 0; block < blocks; ++block) {
          int changes = 0, count = 0;
          for (StayingTiles at(tiles, FastDiv(channel_tiles), block, blocks); at.left > 0;
               ++count) {
            ++counts.at(at.number());
            const bool is_last = at.left == 1;
            if (at.advance() && !is_last) ++changes;
          }
          EXPECT_LE(changes, count / pixel_tiles + 1);
          if (blocks % channel_tiles == 0) {
            EXPECT_EQ(changes, 0);
          }
        }
        EXPECT_EQ(std::ranges::count(counts, 1), tiles)
            << channel_tiles << " x " << pixel_tiles << " tiles, " << blocks << " blocks";
      }
    }
  }
}

TEST(ChannelsLastStayingTiles, GoOverThePixelsTogetherWhereThatTakesNoMoreRounds) {
  const auto blocks = [](const char* text) {
    return std::get<Kept<StayingLaunch>>(staying_plans_of(text, Direction::kDgrad).front().launch)
        ->blocks;
  };
  EXPECT_EQ(blocks("n64c512h28w28 k256r1s1"), 132) << "33 rows of 4 tiles of channels";
  EXPECT_EQ(blocks("n64c1024h14w14 k256r1s1"), 132) << "6 rounds, and 7 of 128 blocks";
}

}  // namespace
}  // namespace haloconv::testing
