// Where the Hopper weight gradient's kernels find things in shared memory, and that threads meet no
// bank twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "conv2d/families/wgrad/arguments.h"
#include "cpp_tests/families/wgrad/each_plan.h"

namespace haloconv::testing {
namespace {

using wgrad::Arguments;
using wgrad::Block;
using wgrad::Plan;

// Where rows are copied as they lie: the 8 threads that read 16 bytes at one time, of two rows and
// four columns of the operand, read 8 different groups of banks.
TEST(Sm90WgradSharedMemory, ThreadsMeetNoBankTwice) {
  for_each_plan({"reference", "edges"}, [](const Shape& shape, const Conv2dProblem&,
                                           const Plan& plan, const Arguments& args) {
    if (plan.boxes) return;
    const int32_t of_column = args.segments / 4;
    for (int32_t segment = 0; segment < of_column; ++segment) {
      std::set<int32_t> groups;
      for (int32_t i = 0; i < 8; ++i) {
        const int32_t cell = i / 4 * args.row_cells(args.segments) +
                             (i % 4 * of_column + segment) * args.segment_cells;
        groups.insert(cell % 8);
      }
      ASSERT_EQ(groups.size(), 8u) << shape << plan;
    }
    EXPECT_GE(args.segment_cells * args.segments, args.segment) << shape << plan;
    EXPECT_EQ(args.stage_bytes, args.tile_rows * args.row_cells(args.segments) * 16);
  });
}

// Where a lane loads neighbouring columns of one channel at once, the 8 lanes that store 16 bytes
// at one time write to 8 different groups of banks.
TEST(Sm90WgradSharedMemory, LanesStoreToDifferentBanks) {
  constexpr int kVector = 4;
  for (const int mma_channels : {8, 16, 24, 32, 56}) {
    for (int first_lane = 0; first_lane < 32; first_lane += 8) {
      std::set<int> groups;
      for (int lane = first_lane; lane < first_lane + 8; ++lane) {
        const int channel = lane % wgrad::lane_channels(kVector);
        const int column = lane / wgrad::lane_channels(kVector) * kVector;
        groups.insert((channel + column * mma_channels) % 8);
      }
      EXPECT_EQ(groups.size(), 8u) << mma_channels << ' ' << first_lane;
    }
  }
}

// Long walks have rings of one window and what other stages add to it: before a walk's first strip
// all others have been read. Shorter ones hold two windows.
TEST(Sm90WgradSharedMemory, LongWalksHoldOneWindow) {
  int long_walks = 0;
  for_each_plan({"reference", "edges", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                                        const Plan& plan, const Arguments& args) {
    EXPECT_EQ(args.strips_behind(0), args.holds_two_windows()) << shape << plan;
    EXPECT_TRUE(args.walk_rows >= 128 || args.holds_two_windows()) << shape << plan;
    EXPECT_GE(args.ring_lines - args.window_lines, args.most_behind) << plan;
    long_walks += !args.holds_two_windows();
  });
  EXPECT_GT(long_walks, 100);
}

// What the tap of a slot reads for the segment's last pixel is a cell of its plane.
TEST(Sm90WgradSharedMemory, EveryTapStaysInsideItsPlane) {
  for_each_plan({"reference", "edges", "layers"}, [](const Shape& shape, const Conv2dProblem&,
                                                     const Plan& plan, const Arguments& args) {
    const int32_t last = args.runs_of_class * args.mma_taps - 1;
    const int32_t pixels = std::max(args.segment + args.most_shift,
                                    args.row_shift > 0 ? args.left_part + args.short_pixels : 0);
    EXPECT_EQ(args.left_columns + pixels + last * args.shift_step, args.plane_columns)
        << shape << plan;
    for (int32_t tile = 0; tile < args.column_tiles(); ++tile) {
      Block b{};
      args.set_columns(b, tile);
      EXPECT_LE((args.holds_two_windows() ? 2 : 1) * b.rows, args.ring_lines) << shape << plan;
      EXPECT_GE(args.most_behind, 1) << shape << plan;
    }
  });
}

// What the copy engine writes, as PTX describes its swizzle, is where a thread looks for it; the 8
// threads that read at one time, of two rows and four segments, read 8 different groups of banks.
TEST(Sm90WgradSharedMemory, ThreadsFindTheirPixelsInBoxes) {
  int plans = 0;
  for_each_plan({"reference", "edges"}, [&](const Shape& shape, const Conv2dProblem&,
                                            const Plan& plan, const Arguments& args) {
    EXPECT_EQ(plan.boxes, args.boxes) << shape << plan;
    if (!plan.boxes) return;
    ++plans;
    const uint32_t row_bytes = args.box_columns * 4;
    EXPECT_LE(args.segment + (args.row_maps > 1 ? 2 : 0), args.segment_boxes * args.box_columns);
    EXPECT_EQ(args.grad_at % 128 + args.segment_bytes % 128 + args.box_bytes % 128, 0) << plan;
    for (uint32_t base = 1024; base < 2048; base += 128) {
      for (int32_t row = 0; row < args.tile_rows; row += 2) {
        std::set<uint32_t> groups;
        for (int32_t i = 0; i < 8; ++i) {
          const int32_t own_row = row + i / 4, segment = i % 4;
          const uint32_t first = base + args.row_in_boxes(own_row, segment);
          const uint32_t swizzle = args.swizzle_at(first);
          for (int32_t pixel = 0; pixel < args.segment_boxes * args.box_columns; pixel += 2) {
            const uint32_t plain = base + segment * args.segment_bytes +
                                   pixel / args.box_columns * args.box_bytes + own_row * row_bytes +
                                   pixel % args.box_columns * 4;
            const uint32_t swizzled = plain ^ (plain >> 7 << 4 & (row_bytes - 1));
            ASSERT_EQ(first + args.in_boxes(pixel * 4, swizzle), swizzled) << shape << plan;
          }
          groups.insert((first + args.in_boxes(0, swizzle)) / 16 % 8);
        }
        ASSERT_EQ(groups.size(), 8u) << shape << plan;
      }
    }
  });
  EXPECT_GT(plans, 20);
}

}  // namespace
}  // namespace haloconv::testing
