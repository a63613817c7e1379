// A residual that passes through the ring with channels innermost: in which plans it does, and
// where a thread finds its words there.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/plan.h"
#include "conv2d/families/channels_last/result_boxes.h"
#include "cpp_tests/shared_memory_emulation.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

// Where the copy engine puts a residual, and takes results from.
TEST(ChannelsLastBoxes, HaveAThreadsSumsInWordsOfTheirOwnBanks) {
  const uint32_t rows = 3 * kWarpPixels * kBoxRowBytes;  // of a warp
  for (int32_t chunk = 0; chunk < kBoxChannels / 8; ++chunk) {
    for (int32_t half = 0; half < 2; ++half) {
      std::set<uint32_t> banks;
      for (int32_t lane = 0; lane < 32; ++lane) {
        const int32_t pixel = lane / 4 + half * 8, channel = chunk * 8 + lane % 4 * 2;
        const uint32_t at = word_at(first_word(rows, lane), chunk, half);
        EXPECT_EQ(at, swizzled(rows + pixel * kBoxRowBytes + channel * 2, kBoxRowBytes));
        banks.insert(at / 4 % 32);
      }
      EXPECT_EQ(banks.size(), 32);
    }
  }
}

// Where boxes of 64 channels fit a stage, and whole rows of results are a box's.
TEST(ChannelsLastBoxes, FitAStageWhereAResidualIsCopied) {
  const auto copied = [](const Conv2dProblem& p, Direction direction) {
    std::map<std::string, std::pair<int, int>> counts;  // of all, and of those that do
    for (const Plan& plan : make_plans(p, direction, h200())) {
      if (plan.tile.row_bytes() < kStageRowBytes || plan.has_staying_filter()) continue;
      auto& [all, those] = counts[plan.is_turned()    ? "turned"
                                  : plan.by_windows() ? "windows"
                                                      : "columns"];
      ++all;
      those += plan.copies_residual();
      if (!plan.copies_residual()) continue;
      const int64_t box = plan.tile.pixels * 2 * kBoxChannels;
      if (const auto* windows = std::get_if<WindowLaunch>(&plan.launch)) {
        EXPECT_GE(windows->args.boxes * windows->args.box_pitch, box) << plan;
        EXPECT_GE(windows->args.window_stages, 2) << plan;
      } else {
        EXPECT_GE(stage_bytes(plan.tile), boxes_of_stage(plan.tile) * box) << plan;
        EXPECT_GE(std::get<1>(plan.launch).front().args.stages, 2) << plan;
      }
    }
    return counts;
  };
  using Counts = std::map<std::string, std::pair<int, int>>;
  const Conv2dProblem expand = channels_last_problem("n64c64h56w56 k256r1s1");
  EXPECT_EQ(copied(expand, Direction::kFprop), (Counts{{"windows", {6, 6}}, {"columns", {9, 9}}}));
  EXPECT_EQ(copied(expand, Direction::kDgrad), (Counts{{"windows", {6, 0}}, {"columns", {9, 0}}}));
  const Conv2dProblem strided =
      channels_last_problem("n64c64h56w56 k256r3s3 stride=2,2 pad=1,1,1,1");
  EXPECT_EQ(copied(strided, Direction::kFprop), (Counts{{"columns", {9, 9}}}));
  // Rows of a slice, between which other numbers lie.
  Conv2dProblem slice = strided;
  slice.output.h += 8;
  slice.output.n += 8 * 28;
  EXPECT_EQ(copied(slice, Direction::kFprop), (Counts{{"columns", {9, 0}}}));
  const Conv2dProblem in_tf32 = channels_last_problem("n64c64h56w56 k256r1s1", DataType::kFloat32);
  EXPECT_EQ(copied(in_tf32, Direction::kFprop),
            (Counts{{"windows", {5, 0}}, {"columns", {6, 0}}, {"turned", {3, 0}}}));
}

}  // namespace
}  // namespace haloconv::testing
