#include "conv2d/families/halo/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "chip/known_chips.h"
#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/window.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::Plan;

Conv2dProblem problem_of(const std::string& text) { return parse_shape("a " + text).problem; }

std::string reason(const Conv2dProblem& p, Direction direction = Direction::kFprop,
                   const Chip& chip = h200()) {
  return hopper_rows_decline(p, direction, chip);
}

std::vector<Plan> halo_plans(const Conv2dProblem& p, Direction direction, bool tf32 = true) {
  return halo::make_plans(p, direction, h200(), tf32);
}

// Calls check(shape, problem, plan, arguments) for each launch of each plan of each shape of the
// files, of float32 and of 16-bit elements; the problem is the shape's, flattened.
template <class Check>
void for_each_plan(Check check) {
  for (const char* file :
       {"reference", "edges", "layers", "networks", "transposed", "one_dimensional"}) {
    for (Shape shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
        shape.problem.type = type;
        for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
          if (!reason(shape.problem, direction).empty()) continue;
          const Conv2dProblem p = flattened(shape.problem);
          for (const bool tf32 : {true, false}) {
            if (!tf32 && type != DataType::kFloat32) continue;
            for (const Plan& plan : halo_plans(shape.problem, direction, tf32)) {
              EXPECT_EQ(plan.type, type);
              EXPECT_EQ(plan.precise, !tf32);
              for (const halo::Launch& launch : halo::make_launches(p, plan)) {
                check(shape, p, plan, launch.arguments);
              }
            }
          }
        }
      }
    }
  }
}

TEST(Sm90Plan, EveryPlanFitsTheMultiprocessorAndCoversTheOutput) {
  for_each_plan([](const Shape& shape, const Conv2dProblem& p, const Plan& plan,
                   const halo::Arguments& args) {
    EXPECT_LE(halo::shared_bytes(args), kMaxShared) << shape << plan;
    const int pixels = plan.tile.images * plan.tile.rows * plan.tile.columns;
    EXPECT_EQ(pixels < plan.tile.width * plan.tile.instructions, halo::is_flat(plan.tile)) << plan;
    EXPECT_GE(args.h.tiles * args.h.tile, args.h.outputs) << shape << plan;
    EXPECT_GE(args.w.tiles * args.w.tile, args.w.outputs) << shape << plan;
    EXPECT_GE(args.image_tiles * args.tile_images, p.n) << shape << plan;
    // Each split has chunks, and together they have all.
    EXPECT_LT((args.splits - 1) * args.split_chunks, args.chunks) << shape << plan;
    EXPECT_GE(args.splits * args.split_chunks, args.chunks) << shape << plan;
    EXPECT_EQ(args.chunk, p.type == DataType::kFloat32 ? 8 : 16) << shape << plan;
    EXPECT_GE(args.chunks * args.chunk, args.channels) << shape << plan;
    EXPECT_LT((args.chunks - 1) * args.chunk, args.channels) << shape << plan;
    EXPECT_LT(args.chunks_ahead, plan.stages) << shape << plan;
  });
}

// A few windows, and fewer where the L1 cache would be small beside them.
TEST(Sm90Plan, WindowsLeaveTheCacheRoom) {
  for_each_plan(
      [](const Shape& shape, const Conv2dProblem&, const Plan& plan, const halo::Arguments& args) {
        if (plan.precise) return;  // with a single tap they have as many as fit
        EXPECT_LE(plan.stages, 5) << shape << plan;
        // A single tap needs three.
        if (plan.stages > 3) {
          EXPECT_LE(halo::shared_bytes(args), 195 * 1024) << shape << plan;
        }
      });
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = problem_of("n32c64h112w112 k128r3s3 pad=1,1,1,1");
    p.type = type;
    const Plan plan = halo_plans(p, Direction::kDgrad).front();
    EXPECT_EQ(plan.stages, type == DataType::kFloat32 ? 2 : 5) << plan;
  }
}

// A tap reads, for the tile's last output, a cell of the window.
TEST(Sm90Plan, EveryTapStaysInsideTheWindow) {
  for_each_plan(
      [](const Shape& shape, const Conv2dProblem&, const Plan& plan, const halo::Arguments& args) {
        for (const halo::WindowAxis& axis : {args.h, args.w}) {
          for (int32_t tap = 0; tap < axis.taps; ++tap) {
            int32_t residue = -1;
            const int32_t cell = axis.tap_cell(tap, residue);
            ASSERT_GE(cell, 0);
            ASSERT_LE(cell + axis.tile, axis.cells) << shape << plan;
            ASSERT_LT(residue, axis.residues);
            // The source pixel that it stands for is the one that the tap meets.
            const int32_t source = axis.origin + cell * axis.source_step + axis.residue[residue];
            ASSERT_EQ(source - axis.origin, axis.first_shift + tap * axis.shift_step);
          }
        }
      });
}

TEST(Sm90Plan, PlansAreSortedByTheirEstimate) {
  for (const Shape& shape : load_shapes("reference")) {
    const auto plans = halo::make_plans(shape.problem, Direction::kFprop, h200());
    ASSERT_GT(plans.size(), 10u) << shape;
    for (size_t i = 1; i < plans.size(); ++i) {
      EXPECT_LE(plans[i - 1].estimated_ms, plans[i].estimated_ms) << shape;
    }
  }
}

// The model errs by kind of tile: what is timed has the best of several kinds.
TEST(Sm90Plan, KeepsTheBestOfEachKind) {
  for (const Shape& shape : load_shapes("reference")) {
    const auto plans = halo::make_plans(shape.problem, Direction::kFprop, h200());
    const auto best = halo::best_plans(shape.problem, Direction::kFprop, h200(), true, 8);
    ASSERT_EQ(best.size(), 8u) << shape;
    EXPECT_EQ(best.front().estimated_ms, plans.front().estimated_ms) << shape;
    for (size_t i = 0; i < best.size(); ++i) {
      if (best[i].estimated_ms > 1.3 * best.front().estimated_ms)
        break;  // there may be no other kind
      for (size_t j = 0; j < i; ++j) {
        const halo::Tile &a = best[i].tile, &b = best[j].tile;
        EXPECT_FALSE(a.width == b.width && a.instructions == b.instructions &&
                     a.patches == b.patches && a.share == b.share && a.copied == b.copied &&
                     halo::copies_lines(a) == halo::copies_lines(b) &&
                     halo::is_flat(a) == halo::is_flat(b))
            << shape << best[i] << best[j];
      }
    }
  }
}

// One wave would leave most of the chip empty: the channels are split.
TEST(Sm90Plan, SplitsTheChannelsOfASmallProblem) {
  const auto plans =
      halo::make_plans(problem_of("n1c512h7w7 k512r3s3 pad=1,1,1,1"), Direction::kFprop, h200());
  ASSERT_FALSE(plans.empty());
  EXPECT_GT(plans.front().splits, 1) << plans.front();
}

// They fit in registers, and a block loads them once for all its tiles.
TEST(Sm90Plan, WeightsStayWhereAllTilesHaveTheSameFew) {
  int all_steps = 0, fewer = 0;
  for_each_plan(
      [&](const Shape& shape, const Conv2dProblem&, const Plan& plan, const halo::Arguments& args) {
        const int most = halo::resident_steps(plan.tile);
        if (most == 0) return;
        EXPECT_EQ(args.groups * args.row_tiles * args.splits, 1) << shape << plan;
        EXPECT_LE(args.taps * args.chunks, most) << shape << plan;
        ++(args.taps * args.chunks == most ? all_steps : fewer);
      });
  EXPECT_GT(all_steps, 0);
  EXPECT_GT(fewer, 0);
  const auto plans = halo::make_plans(load_shapes("reference").front().problem, Direction::kFprop,
                                      h200());  // square_3x3
  EXPECT_GT(halo::resident_steps(plans.front().tile), 0) << plans.front();
}

// Rows of 1022 pixels of 16 bits begin at 4 bytes of 16.
TEST(Sm90Plan, PrefersPiecesOfOneRowWhereRowsAreUnaligned) {
  Conv2dProblem p = problem_of("n16c16h1024w1024 k128r3s3");
  p.type = DataType::kBFloat16;
  const Plan best = halo::make_plans(p, Direction::kFprop, h200()).front();
  EXPECT_TRUE(halo::make_launches(p, best).front().arguments.one_line) << best;
}

// A fold's rows fill the instruction's 64, its windows have at most 8 residues, and neither the
// rows of the output nor the launches of its parts are too few or too many.
TEST(Sm90Plan, FoldsRowsOfFewChannels) {
  struct Case {
    const char* problem;
    Direction direction;
    std::set<int> folds;
    size_t launches;  // of folded rows
  };
  const Case cases[] = {
      {"n1c8h32w32 k64r3s3", Direction::kDgrad, {1, 2, 4, 8}, 1},
      {"n1c16h32w32 k64r3s3", Direction::kDgrad, {1, 2, 4}, 1},
      {"n1c24h32w32 k64r3s3", Direction::kDgrad, {1, 2}, 1},
      {"n1c33h32w32 k64r3s3", Direction::kDgrad, {1}, 0},
      {"n1c64h32w32 k64r3s3 groups=4", Direction::kDgrad, {1, 2, 4}, 1},
      {"n1c64h32w32 k16r3s3 stride=2,2", Direction::kFprop, {1, 2, 4}, 1},
      {"n1c64h32w32 k8r3s3 stride=2,2", Direction::kFprop, {1, 2, 4}, 1},
      {"n1c32h32w32 k64r3s3 dil=3,1", Direction::kDgrad, {1, 2}, 3},
      {"n1c32h99w32 k64r3s3 dil=17,1", Direction::kDgrad, {1}, 0},
      {"n1c8h3w32 k64r3s3", Direction::kDgrad, {1, 2}, 1},
      {"n1c8h32w32 k64r1s1", Direction::kDgrad, {1}, 0},
      {"n1c32h32w32 k64r3s3 stride=2,2", Direction::kDgrad, {1, 2}, 4},
  };
  for (const Case& expected : cases) {
    const Conv2dProblem p = flattened(problem_of(expected.problem));
    std::set<int> folds;
    for (const Plan& plan : halo_plans(p, expected.direction)) {
      folds.insert(plan.fold);
      if (plan.fold == 1) continue;
      ASSERT_EQ(halo::make_launches(p, plan).size(), expected.launches) << expected.problem << plan;
    }
    EXPECT_EQ(folds, expected.folds) << expected.problem;
  }
}

// Of columns where the filter is wider than high, and a dilation does not take them apart.
TEST(Sm90Plan, FoldsColumnsOfWideFilters) {
  for (const auto& [text, folds] :
       {std::pair{"n1c32h32w32 k64r3s5", true}, std::pair{"n1c32h32w32 k64r1s3", true},
        std::pair{"n1c32h32w32 k64r3s5 stride=1,2 dil=1,2", true},
        std::pair{"n1c32h32w32 k64r3s5 dil=1,2", false}, std::pair{"n1c32h32w32 k64r5s5", false},
        std::pair{"n1c32h32w32 k64r5s3", false}, std::pair{"n1c33h32w32 k64r3s5", false}}) {
    const auto plans = halo_plans(problem_of(text), Direction::kDgrad);
    ASSERT_FALSE(plans.empty()) << text;
    EXPECT_EQ(std::any_of(plans.begin(), plans.end(), [](const Plan& p) { return p.fold_columns; }),
              folds)
        << text;
  }
}

// A launch for each phase that has taps, each with a filter of its own.
TEST(Sm90Plan, RunsEveryPhaseOfAStride) {
  for (const auto& [text, launches] :
       {std::pair{"n1c64h9w9 k64r3s3 stride=2,2", 4}, std::pair{"n1c64h9w9 k64r1s1 stride=2,2", 1},
        std::pair{"n1c64h9w9 k64r3s3 stride=3,2", 6},
        std::pair{"n1c64h2w9 k64r3s3 stride=3,1 pad=1,1,1,1", 2}}) {
    const Conv2dProblem p = problem_of(text);
    const auto plans = halo_plans(p, Direction::kDgrad);
    ASSERT_FALSE(plans.empty()) << text;
    for (const Plan& plan : plans) {
      std::set<int64_t> filters, destinations;
      for (const halo::Launch& launch : halo::make_launches(p, plan)) {
        filters.insert(launch.packed_at);
        destinations.insert(launch.destination_at);
      }
      EXPECT_EQ(filters.size(), static_cast<size_t>(launches)) << text << plan;
      EXPECT_EQ(destinations.size(), static_cast<size_t>(launches)) << text << plan;
    }
  }
}

// The second math group waits until the first is `lead` chunks ahead: the split with the fewest
// chunks must have them, or its block waits forever.
TEST(Sm90Plan, TheLeadIsWithinTheShortestSplit) {
  int uneven = 0;
  for (int64_t c = 8; c <= 1024; c += 8) {
    const std::string channels = std::to_string(c);
    const Conv2dProblem p =
        problem_of("n1c" + channels + "h14w14 k" + channels + "r3s3 pad=1,1,1,1");
    for (const Plan& plan : halo_plans(p, Direction::kFprop)) {
      const halo::Arguments args = halo::make_launches(p, plan).front().arguments;
      const int32_t least = args.chunks - (args.splits - 1) * args.split_chunks;
      ASSERT_GE(least, 1) << p << plan;
      ASSERT_LE(args.chunks_ahead, std::max(least / 2, 1)) << p << plan;
      ASSERT_GE(args.chunks_ahead, 1) << p << plan;  // or both groups would write together
      uneven += least < args.split_chunks;
    }
  }
  EXPECT_GT(uneven, 0);
}

TEST(Sm90Plan, DeclinesAnInputThatNoTapMeets) {
  const Conv2dProblem p = problem_of("n1c8h1w1 k8r1s1 stride=2,2 pad=1,1,1,1");
  EXPECT_EQ(reason(p, Direction::kDgrad), "no tap meets the input");
  EXPECT_EQ(reason(p), "");
}

// Windows of 2^32 cells and more, whose count in 32 bits is small or zero.
TEST(Sm90Plan, HasNoPlanForWindowsBeyond32Bits) {
  for (const char* text : {"n1c8h1w1 k8r2s2 pad=32764,32764,32752,32752 dil=65528,65504",
                           "n1c8h1w1 k8r2s2 pad=252,252,4194288,4194289 dil=504,8388577"}) {
    const Conv2dProblem p = problem_of(text);
    EXPECT_EQ(reason(p), "") << text;
    EXPECT_TRUE(halo::make_plans(p, Direction::kFprop, h200()).empty()) << text;
  }
}

// Rows outermost in memory: the last one is less than 2^31 elements from the source's first, but
// not from that of a window, which begins in the padding.
TEST(Sm90Plan, AWindowsTableCountsInWhole32Bits) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    Conv2dProblem p = problem_of("n64c128h8w32000 k128r5s5 pad=2,2,2,2");
    (direction == Direction::kFprop ? p.input : p.output) = {4096000, 32000, 262144000, 1};
    ASSERT_EQ(reason(p, direction), "");
    int64_t counted = 0;
    for (const Plan& plan : halo::make_plans(p, direction, h200())) {
      for (const halo::Launch& launch : halo::make_launches(p, plan)) {
        const halo::Arguments& args = launch.arguments;
        for (int32_t i = 0; i < args.entries; ++i) {
          const halo::WindowEntry entry = halo::window_entry(args, i);
          if (args.h.origin + entry.row >= args.h.source_size) continue;
          ASSERT_EQ(entry.source,
                    entry.image * args.source_n + int64_t{entry.row} * args.source_h + entry.column)
              << plan << ", entry " << i;
          ++counted;
        }
      }
    }
    EXPECT_GT(counted, 0);
  }
}

// A lane counts the bytes of its warpgroup's tile in 32 bits.
TEST(Sm90Plan, NoTileSpans2To31BytesOrMore) {
  const Conv2dProblem p = problem_of("n2c8h2w536870912 k64r1s3 pad=0,0,1,1");
  const auto plans = halo_plans(p, Direction::kFprop);
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.tile.images * plan.tile.rows, 1) << plan;
  }
}

TEST(Sm90Plan, HasNoPlanOf2To31TilesOrMore) {
  const Conv2dProblem p = problem_of("n268435457c1h16w1 k1r3s1 pad=1,1,0,0");
  for (const Plan& plan : halo_plans(p, Direction::kFprop)) {
    const halo::Arguments args = halo::make_launches(p, plan).front().arguments;
    const double tiles = static_cast<double>(args.image_tiles) * args.h.tiles * args.w.tiles;
    EXPECT_EQ(tiles, args.tiles) << plan;
    EXPECT_GT(plan.estimated_ms, 1e3 * tiles / 132 * 2000 / 2e9) << plan;
  }
}

TEST(Sm90Plan, FlattensWhatIsPointwiseAndDense) {
  Conv2dProblem p = problem_of("n2c8h5w7 k8r1s1");
  EXPECT_EQ(flattened(p).h, 1);
  EXPECT_EQ(flattened(p).w, 35);
  p.input.h = 9;  // rows with a pitch
  EXPECT_EQ(flattened(p).h, 5);
  EXPECT_EQ(flattened(problem_of("n2c8h5w7 k8r1s1 stride=2,2")).h, 5);
  EXPECT_EQ(flattened(problem_of("n2c8h5w7 k8r1s1 pad=0,0,0,1")).h, 5);
}

TEST(Sm90Plan, DeclinesWithItsReason) {
  Conv2dProblem p = problem_of("n2c16h20w20 k16r3s3");
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(reason(p, Direction::kDgrad), "");
  EXPECT_EQ(reason(p, Direction::kFprop, chip_of("NVIDIA L4")),
            "the device is not of compute capability 9.0 but of 8.9");
  EXPECT_EQ(reason(problem_of("n2c16h20w20 k16r3s3 stride=2,2"), Direction::kDgrad), "");
  EXPECT_NE(reason(problem_of("n2c16h20w20 k16r3s3 groups=4")).find("fewer than 8"),
            std::string::npos);
  EXPECT_NE(reason(problem_of("n2c16h90w90 k16r3s3 stride=9,9")).find("over 8"), std::string::npos);
  Conv2dProblem last = p;
  last.set_dense_strides(true);
  EXPECT_NE(reason(last).find("contiguous"), std::string::npos);
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    Conv2dProblem half = p;
    half.type = type;
    EXPECT_EQ(reason(half, Direction::kFprop), "");
    EXPECT_EQ(reason(half, Direction::kDgrad), "");
    EXPECT_EQ(reason(half, Direction::kWgrad), "");
  }
  Conv2dProblem twice = p;
  twice.type = DataType::kFloat64;
  EXPECT_NE(reason(twice).find("not float32, float16 or bfloat16"), std::string::npos);
}

// No kernel of another type than float32 has a fusion.
TEST(Sm90Plan, Of16BitsHasNoFusion) {
  Conv2dProblem p = problem_of("n4c64h512w512 k3r3s3 pad=1,1,1,1");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    const auto plans = halo::make_plans(p, Direction::kFprop, h200());
    const bool is_float32 = type == DataType::kFloat32;
    EXPECT_EQ(std::any_of(plans.begin(), plans.end(),
                          [](const Plan& plan) { return takes_fusion(plan); }),
              is_float32);
  }
}

// A window larger than shared memory: the filter spans the whole of a large image.
// Whether products of float32 may be rounded says nothing of other types.
TEST(Sm90Plan, OfFloat32IsPreciseWhereTf32IsNotAllowed) {
  Conv2dProblem p = problem_of("n4c64h512w512 k3r3s3 pad=1,1,1,1");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      const auto plans = halo::make_plans(p, direction, h200(), false);
      ASSERT_FALSE(plans.empty());
      for (const Plan& plan : plans) {
        EXPECT_EQ(plan.precise, type == DataType::kFloat32) << plan;
        EXPECT_FALSE(plan.precise && takes_fusion(plan)) << plan;
      }
    }
  }
}

// A batch of four steps has the windows of all in use at a time.
TEST(Sm90Plan, PrecisePlansOfOneTapHaveFourWindows) {
  for (const char* text : {"n2c64h56w56 k64r1s1", "n2c64h300w300 k64r1s1 stride=8,8"}) {
    for (const Plan& plan : halo_plans(problem_of(text), Direction::kFprop, false)) {
      EXPECT_GE(plan.stages, 4) << text << plan;
    }
  }
}

TEST(Sm90Plan, HasNoPlanWhereTheHaloDoesNotFit) {
  const Conv2dProblem p = problem_of("n1c8h200w200 k8r60s60 dil=3,3");
  EXPECT_EQ(reason(p), "");
  EXPECT_TRUE(halo::make_plans(p, Direction::kFprop, h200()).empty());
}

TEST(Sm90Plan, Prints) {
  std::ostringstream text;
  text << halo_plans(problem_of("n2c16h20w20 k16r3s3"), Direction::kFprop).front();
  EXPECT_NE(text.str().find("fprop tile="), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("workspace="), std::string::npos) << text.str();
  Plan folded;
  folded.fold = 4;
  text << folded;
  EXPECT_NE(text.str().find("fold=4"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace haloconv::testing
