// The planner of the kernels for channels innermost: what it declines, and that its blocks, windows
// and columns meet the pixels that the definition says.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/laid_filter.h"
#include "conv2d/families/channels_last/plan.h"
#include "conv2d/families/channels_last/prefetch.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

namespace channels_last = sm90::channels_last;
using channels_last::Arguments;
using channels_last::BlockPlace;
using channels_last::Launch;
using channels_last::Plan;
using channels_last::SplitLaunch;
using channels_last::TilePhase;
using channels_last::WindowArguments;
using channels_last::WindowLaunch;

std::vector<Plan> plans_of(const Conv2dProblem& p, Direction direction) {
  if (!channels_last::declines(p, direction, true, h200()).empty()) return {};
  return channels_last::make_plans(p, direction, h200());
}

// A tap in the filter, and the source pixel that a destination pixel meets there.
using Meeting = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // r, s, h, w
using Meetings = std::map<std::pair<int64_t, int64_t>, std::vector<Meeting>>;

// By definition; taps on padding, which add nothing, are not among them.
Meetings expected_meetings(const Conv2dProblem& p, Direction direction) {
  Meetings meetings;
  const bool fprop = direction == Direction::kFprop;
  for (int64_t i = 0; i < (fprop ? p.p() : p.h); ++i) {
    for (int64_t j = 0; j < (fprop ? p.q() : p.w); ++j) meetings[{i, j}];
  }
  for (int64_t i = 0; i < p.p(); ++i) {
    for (int64_t j = 0; j < p.q(); ++j) {
      for (int64_t r = 0; r < p.r; ++r) {
        for (int64_t s = 0; s < p.s; ++s) {
          const int64_t h = i * p.stride_h - p.pad_top + r * p.dilation_h;
          const int64_t w = j * p.stride_w - p.pad_left + s * p.dilation_w;
          if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
          if (fprop) {
            meetings[{i, j}].push_back({r, s, h, w});
          } else {
            meetings[{h, w}].push_back({r, s, i, j});
          }
        }
      }
    }
  }
  for (auto& [pixel, list] : meetings) std::sort(list.begin(), list.end());
  return meetings;
}

struct Size {
  int64_t h, w;
  bool has(int64_t row, int64_t column) const {
    return row >= 0 && row < h && column >= 0 && column < w;
  }
};

Size source_of(const Conv2dProblem& p, Direction direction) {
  return direction == Direction::kFprop ? Size{p.h, p.w} : Size{p.p(), p.q()};
}

// What the windows of the first image's blocks hold, as the kernel reads them.
Meetings window_meetings(const WindowLaunch& launch, const Size& source, int32_t pixel_bytes) {
  const WindowArguments& a = launch.args;
  Meetings meetings;
  const int32_t blocks = (a.row_boxes.divisor * a.column_boxes.divisor) << a.log2_box_blocks;
  for (int32_t block = 0; block < blocks; ++block) {
    const int32_t tile_blocks = a.boxes << a.log2_box_blocks, in_tile = block % tile_blocks;
    const int32_t first = block - in_tile;
    const auto [image, row, column] = a.place_of(first, in_tile);
    EXPECT_EQ(image, 0);
    const int32_t first_of_box = in_tile >> a.log2_box_blocks << a.log2_box_blocks;
    const BlockPlace box = a.place_of(first, first_of_box);
    const int32_t pitch = launch.box[1], window = a.windows[in_tile] - a.windows[first_of_box];
    for (int32_t matrix_row = 0; matrix_row < 64; ++matrix_row) {
      const int32_t y = matrix_row / a.block_pitch.divisor, x = matrix_row % a.block_pitch.divisor;
      if (y >= a.block_rows || x >= a.block_columns) continue;
      if (row + y >= a.height || column + x >= a.width) continue;
      const auto [place, is_new] = meetings.try_emplace({row + y, column + x});
      EXPECT_TRUE(is_new) << "two matrix rows are pixel " << row + y << ", " << column + x;
      for (int32_t r = 0; r < a.taps_h; ++r) {
        for (int32_t s = 0; s < a.taps_w; ++s) {
          const int32_t bytes = window + a.first_tap_bytes + r * a.tap_row_bytes +
                                s * a.tap_column_bytes + matrix_row / 8 * a.group_bytes +
                                matrix_row % 8 * pixel_bytes;
          EXPECT_LT(bytes, a.box_bytes);
          const int32_t pixel = bytes / pixel_bytes;
          const int64_t h = a.first_h + box.row + pixel / pitch;
          const int64_t w = a.first_w + box.column + pixel % pitch;
          if (source.has(h, w)) place->second.push_back({r, s, h, w});
        }
      }
    }
  }
  return meetings;
}

// What the columns of the first image's pixels hold.
Meetings column_meetings(const Conv2dProblem& p, const std::vector<Launch>& launches,
                         const Size& source, const Strides& destination) {
  Meetings meetings;
  for (const Launch& launch : launches) {
    const Arguments& a = launch.args;
    for (int32_t i = 0; i < a.phases; ++i) {
      const TilePhase& phase = a.phase[i];
      for (int32_t number = 0; number < phase.pixels / p.n; ++number) {
        const int32_t row = number / phase.columns.divisor, column = number % phase.columns.divisor;
        const int64_t at = phase.destination + row * a.destination_h + column * a.destination_w;
        const auto [place, is_new] =
            meetings.try_emplace({at / destination.h, at % destination.h / destination.w});
        EXPECT_TRUE(is_new);
        for (int32_t r = 0; r < phase.taps_h; ++r) {
          for (int32_t s = 0; s < phase.taps_w; ++s) {
            const int32_t offset_h = phase.offset_h + r * a.offset_step_h;
            const int32_t offset_w = phase.offset_w + s * a.offset_step_w;
            EXPECT_GE(std::min(offset_h, offset_w), 0);
            const int64_t h = phase.first_h + row * a.step_h + offset_h;
            const int64_t w = phase.first_w + column * a.step_w + offset_w;
            if (!source.has(h, w)) continue;
            place->second.push_back(
                {phase.tap_h + r * a.tap_step_h, phase.tap_w + s * a.tap_step_w, h, w});
          }
        }
      }
    }
  }
  return meetings;
}

// What the kernels make of a launch's tiles: of each pixel tile the phase's place and its number.
std::vector<std::pair<int64_t, int32_t>> dealt_tiles(const Arguments& args) {
  std::vector<std::pair<int64_t, int32_t>> tiles;
  for (int32_t i = 0, phase = 0; i < args.tiles / args.channel_tiles.divisor; ++i) {
    while (phase + 1 < args.phases && i >= args.phase[phase + 1].first_tile) ++phase;
    tiles.emplace_back(args.phase[phase].destination, i - args.phase[phase].first_tile);
  }
  return tiles;
}

// 100 tiles of each of four phases, of 32, 16, 16 and 8 steps: 32 of the second come first.
TEST(ChannelsLastPlan, LongTilesGoToBlocksThatGetNoneOfTheLast) {
  constexpr int kBlocks = 132;
  const Conv2dProblem p =
      channels_last_problem("n64c512h14w14 k512r3s3 stride=2,2 pad=1,1,1,1", DataType::kBFloat16);
  const channels_last::Tile tile{128, 128, 64, 2, true};
  const Launch launch = channels_last::make_launches(p, Direction::kDgrad, tile, kBlocks).front();
  const Arguments& args = launch.args;
  ASSERT_EQ(args.phases, 5);
  auto tiles = dealt_tiles(args);
  std::sort(tiles.begin(), tiles.end());
  EXPECT_EQ(std::unique(tiles.begin(), tiles.end()), tiles.end());
  EXPECT_EQ(tiles.size(), 100u);
  for (const auto& [place, number] : tiles) EXPECT_TRUE(number >= 0 && number < 25) << place;
  std::vector<int> steps(kBlocks);
  for (int32_t i = 0; i < args.tiles; ++i) {
    int32_t phase = 0;
    while (phase + 1 < args.phases && i / 4 >= args.phase[phase + 1].first_tile) ++phase;
    steps[i % kBlocks] += args.phase[phase].taps_h * args.phase[phase].taps_w * 8;
  }
  EXPECT_EQ(*std::max_element(steps.begin(), steps.end()), 64);
}

TEST(ChannelsLastPlan, MeetsEachPixelOfTheDefinition) {
  int by_windows = 0, by_columns = 0;
  for (const char* text :
       {"n2c64h9w7 k64r1s1", "n2c64h13w30 k64r3s3 pad=1,1,1,1", "n1c8h7w7 k128r3s3 pad=0,1,2,3",
        "n1c64h16w24 k64r5s7 dil=2,1 pad=4,2,0,3", "n2c128h14w15 k256r3s3 stride=2,2 pad=1,1,1,1",
        "n1c64h12w17 k64r2s4 stride=3,4 pad=1,0,0,2", "n2c64h9w11 k64r1s1 stride=2,2",
        "n1c64h19w20 k72r3s3 stride=2,1 dil=3,2 pad=3,3,1,1", "n2c16h20w21 k64r3s3",
        "n1c32h23w31 k64r5s9 dil=2,3 pad=2,2,4,4", "n1c24h9w12 k16r3s3 pad=1,1,1,1"}) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
      const Conv2dProblem p = channels_last_problem(text, type);
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        const Meetings expected = expected_meetings(p, direction);
        const Size source = source_of(p, direction);
        for (const Plan& plan : plans_of(p, direction)) {
          Meetings meetings;
          if (const auto* windows = std::get_if<WindowLaunch>(&plan.launch)) {
            ++by_windows;
            if (windows->flat) continue;  // one row of all images' pixels
            meetings = window_meetings(*windows, source, plan.tile.row_bytes());
          } else {
            const auto* turned = std::get_if<channels_last::TurnedLaunch>(&plan.launch);
            const auto* columns = turned != nullptr
                                      ? &turned->launches
                                      : std::get_if<std::vector<Launch>>(&plan.launch);
            if (columns == nullptr) continue;  // strips_test.cpp
            ++by_columns;
            meetings = column_meetings(p, *columns, source,
                                       direction == Direction::kFprop ? p.output : p.input);
          }
          for (auto& [pixel, list] : meetings) std::sort(list.begin(), list.end());
          EXPECT_EQ(meetings, expected) << text_of(p, plan);
        }
      }
    }
  }
  EXPECT_GT(by_windows, 0);
  EXPECT_GT(by_columns, 0);
}

TEST(ChannelsLastPlan, SharesAWindowWhereTwoOfEachBlockDoNotFit) {
  const auto shares = [](const char* text, Direction direction, int32_t channels) {
    const Conv2dProblem p = channels_last_problem(text, DataType::kBFloat16);
    for (const Plan& plan : plans_of(p, direction)) {
      const auto* windows = std::get_if<WindowLaunch>(&plan.launch);
      if (windows == nullptr || plan.tile.pixels != 256 || plan.tile.channels != channels) continue;
      return windows->args.boxes == 1;
    }
    ADD_FAILURE() << text << " has no windows";
    return false;
  };
  const char* const far = "n1c32h64w64 k64r5s9 pad=4,4,12,12 dil=2,3";
  EXPECT_TRUE(shares(far, Direction::kFprop, 64));
  EXPECT_TRUE(shares(far, Direction::kDgrad, 32));  // a tile for so few channels
  EXPECT_FALSE(shares("n1c64h64w64 k64r3s3 pad=1,1,1,1", Direction::kFprop, 64));
}

TEST(ChannelsLastPlan, FitsSharedMemory) {
  for (const char* file :
       {"reference", "edges", "eights", "layers", "networks", "transposed", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
        Conv2dProblem p = shape.problem;
        p.type = type;
        p.set_dense_strides(true);
        for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
          for (const Plan& plan : plans_of(p, direction)) {
            EXPECT_GT(plan.estimated_ms, 0) << text_of(p, plan);
            const auto* windows = std::get_if<WindowLaunch>(&plan.launch);
            if (windows == nullptr) continue;
            EXPECT_LE(windows->shared_bytes, 226 * 1024) << text_of(p, plan);
            // What the next one waits for is freed when it has begun.
            EXPECT_GE(windows->args.window_stages, std::min(windows->args.chunks, 2))
                << text_of(p, plan);
            EXPECT_GE(
                windows->args.filter_stages,
                std::min(windows->args.chunks * windows->args.taps_h * windows->args.taps_w, 2))
                << text_of(p, plan);
          }
        }
      }
    }
  }
}

TEST(ChannelsLastPlan, KeepsASmallFilter) {
  for (const Plan& plan :
       plans_of(channels_last_problem("n8c64h56w56 k64r3s3 pad=1,1,1,1"), Direction::kFprop)) {
    if (!plan.by_windows() || plan.tile.channels != 64 || plan.tile.pixels != 256) continue;
    EXPECT_TRUE(std::get<WindowLaunch>(plan.launch).args.resident) << plan;
  }
}

TEST(ChannelsLastPlan, PrefetchesASourceThatIsMostOfTheBytes) {
  constexpr int32_t kStages = 5;
  const auto prefetched = [](const std::string& text, Direction direction,
                             int64_t channel_tiles = 1, bool has_several_tiles = true,
                             DataType type = DataType::kBFloat16) {
    return channels_last::prefetched_stages(channels_last_problem(text, type), direction,
                                            channel_tiles, has_several_tiles, kStages);
  };
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kFprop), kStages);
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kDgrad), 0);
  EXPECT_EQ(prefetched("n64c128h28w28 k512r1s1", Direction::kDgrad), kStages);
  EXPECT_EQ(prefetched("n64c256h56w56 k512r1s1 stride=2,2", Direction::kDgrad), 0);
  EXPECT_EQ(prefetched("n64c128h28w28 k64r3s3", Direction::kFprop), 0);
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kFprop, 2), 0);
  EXPECT_EQ(prefetched("n64c64h56w56 k64r1s1", Direction::kDgrad), 2);
  // One tile a block.
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kFprop, 1, false), 0);
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kFprop, 1, false, DataType::kFloat32),
            kStages);
  // Rows of 288 and of 320 bytes.
  EXPECT_EQ(prefetched("n64c24h56w56 k144r1s1", Direction::kDgrad), 1);
  EXPECT_EQ(prefetched("n64c24h56w56 k160r1s1", Direction::kDgrad), 1);
  EXPECT_EQ(prefetched("n64c24h56w56 k192r1s1", Direction::kDgrad), kStages);
}

bool alternates_columns(const Plan& plan) {
  return plan.tile.alternates && !plan.has_staying_filter() && !plan.by_windows();
}

// Tiles of 3 to 8 steps, if no other rule says more.
TEST(ChannelsLastPlan, PrefetchesTheFirstStagesOfAlternatingTilesOfFewSteps) {
  const auto prefetched = [](const char* text, Direction direction) {
    int32_t most = 0;
    for (const Plan& plan : plans_of(channels_last_problem(text), direction)) {
      if (!alternates_columns(plan)) continue;
      most =
          std::max(most, std::get<std::vector<Launch>>(plan.launch).front().args.prefetched_stages);
    }
    return most;
  };
  EXPECT_EQ(prefetched("n64c1024h14w14 k256r1s1", Direction::kDgrad), 2);
  EXPECT_EQ(prefetched("n64c1024h14w14 k512r1s1", Direction::kDgrad), 2);
  EXPECT_EQ(prefetched("n64c512h28w28 k128r1s1", Direction::kDgrad), 0);
  EXPECT_EQ(prefetched("n64c256h14w14 k1024r1s1", Direction::kDgrad), 0);
  EXPECT_EQ(prefetched("n64c128h56w56 k128r3s3 stride=2,2 pad=1,1,1,1", Direction::kDgrad), 2);
}

// A block's tiles are of the same channels where a filter stays that is several tiles wide.
TEST(ChannelsLastPlan, KeepsASmallFilterOfEachTileOfChannels) {
  const int room = 2 * h200().multiprocessors;
  int kept = 0;
  for (const char* text :
       {"n64c24h56w56 k144r1s1", "n64c112h14w14 k672r1s1", "n2c64h20w20 k968r1s1"}) {
    for (const Plan& plan : plans_of(channels_last_problem(text), Direction::kFprop)) {
      if (!plan.by_windows()) continue;
      const WindowArguments& args = std::get<WindowLaunch>(plan.launch).args;
      EXPECT_LE(args.grid(room), std::min(args.tiles, room)) << plan;
      EXPECT_GT(args.grid(room), 0) << plan;
      if (!args.resident) continue;
      kept += args.channel_tiles.divisor > 1;
      EXPECT_EQ(args.grid(room) % args.channel_tiles.divisor, 0) << plan;
    }
  }
  EXPECT_GT(kept, 0);
}

// One that stays, of 16 bits and a single tap, whose rows in memory are no whole sectors, or one.
TEST(ChannelsLastPlan, LaysSmallFiltersWhoseRowsTheCopyEngineBringsSlowly) {
  const auto laid = [](const std::string& text, DataType type = DataType::kBFloat16) {
    int32_t count = 0;
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      for (const Plan& plan : plans_of(channels_last_problem(text, type), direction)) {
        if (!plan.by_windows()) continue;
        const WindowArguments& args = std::get<WindowLaunch>(plan.launch).args;
        EXPECT_TRUE(args.resident || !args.lays_filter) << plan;
        EXPECT_EQ(args.source_channels, direction == Direction::kFprop ? 40 : 240) << plan;
        EXPECT_EQ(args.filter_step, 40) << plan;
        count += args.lays_filter;
      }
    }
    return count;
  };
  EXPECT_GT(laid("n64c40h28w28 k240r1s1"), 3);
  EXPECT_EQ(laid("n64c40h28w28 k240r1s1", DataType::kFloat32), 0);
  const auto gains = [](const std::string& text) {
    return channels_last::gains_by_laying(channels_last_problem(text));
  };
  EXPECT_TRUE(gains("n64c24h56w56 k144r1s1"));
  EXPECT_TRUE(gains("n64c16h56w56 k96r1s1"));
  EXPECT_FALSE(gains("n64c32h56w56 k144r1s1"));
  EXPECT_FALSE(gains("n64c72h28w28 k240r1s1"));
  EXPECT_FALSE(gains("n64c80h14w14 k480r1s1"));
  EXPECT_FALSE(gains("n64c40h28w28 k240r3s3 pad=1,1,1,1"));
}

// Windows as narrow as the channels, so that no product is of zeros, even where wide ones do not
// fit.
TEST(ChannelsLastPlan, HasNarrowWindowsOfFewChannels) {
  const auto depths = [](const std::string& text) {
    std::map<int, int> counts;
    for (const Plan& plan : plans_of(channels_last_problem(text), Direction::kFprop)) {
      if (plan.by_windows()) ++counts[plan.tile.depth];
    }
    return counts;
  };
  EXPECT_GT(depths("n16c16h1024w1024 k128r3s3")[16], 0);
  EXPECT_EQ(depths("n16c16h1024w1024 k128r3s3")[32], 0);
  EXPECT_GT(depths("n8c32h512w512 k64r5s9")[32], 0);
  EXPECT_GT(depths("n8c32h512w512 k64r5s9 pad=2,2,4,4 dil=2,3")[32], 0);
  EXPECT_EQ(depths("n8c64h56w56 k64r3s3 pad=1,1,1,1")[32], 0);
}

// The first of those whose filter comes again with each tile, or by windows.
Plan first_without_staying(const Conv2dProblem& p, Direction direction) {
  const std::vector<Plan> plans = plans_of(p, direction);
  return *std::ranges::find_if_not(plans, &Plan::has_staying_filter);
}

TEST(ChannelsLastPlan, HasWideTilesOfNarrowWindows) {
  const Plan plan =
      first_without_staying(channels_last_problem("n64c24h56w56 k144r1s1"), Direction::kFprop);
  EXPECT_EQ(plan.tile, (channels_last::Tile{128, 160, 32})) << text_of(plan);
}

// Tiles of few steps, whose results take as long as their products.
TEST(ChannelsLastPlan, AlternatesTilesOfFewSteps) {
  const auto alternates = [](const char* text, Direction direction) {
    return first_without_staying(channels_last_problem(text), direction).tile.alternates;
  };
  EXPECT_TRUE(alternates("n64c1024h14w14 k256r1s1", Direction::kDgrad));
  EXPECT_TRUE(alternates("n64c256h14w14 k1024r1s1", Direction::kFprop));
  EXPECT_TRUE(alternates("n64c512h28w28 k1024r1s1 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(alternates("n64c24h56w56 k144r1s1", Direction::kFprop));
  EXPECT_FALSE(alternates("n64c256h14w14 k256r3s3 pad=1,1,1,1", Direction::kFprop));
}

// Windows too, whose blocks and rings are those of the same tile that does not alternate: with what
// is fused that runs in its place.
TEST(ChannelsLastPlan, AlternatesWindowsOfFewChannels) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    for (const char* text : {"n64c64h56w56 k64r3s3 pad=1,1,1,1", "n3c256h56w56 k64r1s1"}) {
      const std::vector<Plan> plans = plans_of(channels_last_problem(text), direction);
      const WindowLaunch* by_turns[2] = {};
      for (const Plan& plan : plans) {
        if (!plan.by_windows() || plan.tile.pixels != 256 || plan.tile.channels != 64) continue;
        by_turns[plan.tile.alternates] = &std::get<WindowLaunch>(plan.launch);
      }
      ASSERT_NE(by_turns[0], nullptr) << text;
      ASSERT_NE(by_turns[1], nullptr) << text;
      EXPECT_EQ(by_turns[0]->shared_bytes, by_turns[1]->shared_bytes) << text;
      EXPECT_EQ(by_turns[0]->args.tiles, by_turns[1]->args.tiles) << text;
      EXPECT_EQ(by_turns[0]->copies_residual, by_turns[1]->copies_residual) << text;
    }
  }
}

// Where writing them takes as long as their products, and where they are whole in memory: not those
// of a phase. What a block has for them and for its stages is there.
TEST(ChannelsLastPlan, CopiesResultsOfAlternatingTilesOfFewSteps) {
  const auto copies = [](const char* text, Direction direction) {
    const std::vector<Plan> plans = plans_of(channels_last_problem(text), direction);
    bool copies = false;
    for (const Plan& plan : plans) {
      if (!alternates_columns(plan)) continue;
      const Launch& launch = std::get<std::vector<Launch>>(plan.launch).front();
      copies = launch.copies_results;
      EXPECT_GE(launch.args.stages, 4);
      EXPECT_LE(
          launch.args.stages * stage_bytes(plan.tile) + (copies ? staged_bytes(plan.tile) : 0),
          224 * 1024);
    }
    return copies;
  };
  EXPECT_TRUE(copies("n64c1024h14w14 k256r1s1", Direction::kDgrad));
  EXPECT_TRUE(copies("n64c1024h14w14 k512r1s1", Direction::kDgrad));
  EXPECT_TRUE(copies("n64c256h14w14 k1024r1s1", Direction::kFprop));
  EXPECT_FALSE(copies("n64c512h28w28 k256r1s1", Direction::kFprop));
  EXPECT_FALSE(copies("n64c1024h14w14 k256r1s1", Direction::kFprop));
  EXPECT_FALSE(copies("n64c512h28w28 k256r1s1 stride=2,2", Direction::kDgrad));
}

// The matrix instruction takes its filter with the depth innermost alone, unless it is the first
// operand, which may come from registers.
TEST(ChannelsLastPlan, TransposesTheFilterOfFloat32ForDgrad) {
  const Conv2dProblem p = channels_last_problem("n2c64h9w7 k32r3s3", DataType::kFloat32);
  for (const Plan& plan : plans_of(p, Direction::kFprop)) {
    if (std::holds_alternative<channels_last::Kept<SplitLaunch>>(plan.launch))
      continue;  // splits_test.cpp
    EXPECT_EQ(plan.workspace_bytes, 0);
  }
  for (const Plan& plan : plans_of(p, Direction::kDgrad)) {
    EXPECT_EQ(plan.workspace_bytes, plan.is_turned() ? 0 : 64 * 32 * 9 * 4) << text_of(p, plan);
  }
}

TEST(ChannelsLastPlan, SaysWhyItDeclines) {
  const auto reason = [](const Conv2dProblem& p, Direction direction = Direction::kFprop) {
    return channels_last::declines(p, direction, true, h200());
  };
  const std::string kStrides =
      "channels are not innermost, or other strides are no positive multiples of 8";
  const Conv2dProblem taken = channels_last_problem("n2c64h8w8 k64r3s3");
  EXPECT_EQ(reason(taken), "");
  EXPECT_EQ(reason(taken, Direction::kWgrad), "it is a weight gradient");
  Conv2dProblem p = taken;
  p.type = DataType::kFloat64;
  EXPECT_EQ(reason(p), "the element type is none of float32, float16 and bfloat16");
  p.type = DataType::kFloat32;
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(channels_last::declines(p, Direction::kFprop, false, h200()), "TF32 is not allowed");
  EXPECT_EQ(reason(channels_last_problem("n2c62h8w8 k64r3s3", DataType::kFloat32)),
            "input or output channels are no multiple of 4");
  p = taken;
  p.set_dense_strides(false);
  EXPECT_EQ(reason(p), kStrides);
  p = taken;
  p.input.w += 4;
  EXPECT_EQ(reason(p), kStrides);
  p = taken;
  p.input.n = 0;
  EXPECT_EQ(reason(p), kStrides);
  EXPECT_EQ(reason(channels_last_problem("n2c60h8w8 k64r3s3")),
            "input or output channels are no multiple of 8");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3 groups=2")), "it has groups");
}

}  // namespace
}  // namespace haloconv::testing
