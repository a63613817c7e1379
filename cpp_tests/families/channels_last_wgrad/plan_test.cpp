// The planner of the weight gradients with channels innermost, and where the kernels' descriptors
// point, followed on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last_wgrad/bias_eights.h"
#include "conv2d/families/channels_last_wgrad/costs.h"
#include "conv2d/families/channels_last_wgrad/plan.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "conv2d/families/channels_last_wgrad/tiles.h"
#include "conv2d/geometry/flat_pixels.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

namespace wgrad = sm90::channels_last_wgrad;
using wgrad::ColumnAxis;
using wgrad::Layout;
using wgrad::Plan;

std::string reason(const Conv2dProblem& problem) { return wgrad::decline(problem, h200()); }

// With the output's gradient's rows innermost, whole 16 bytes from one to the next.
Conv2dProblem with_output_rows(Conv2dProblem problem) {
  const int64_t pitch = round_up(problem.q(), 8), plane = problem.p() * pitch;
  problem.output = {.n = problem.k * plane, .c = plane, .h = pitch, .w = 1};
  return problem;
}

// Calls check(problem, plan, text) for every plan of each shape that the kernels take, in both
// layouts of the output's gradient.
template <class Check>
void for_each_plan(std::initializer_list<const char*> files, Check check) {
  int taken = 0;
  for (const char* file : files) {
    for (Shape shape : load_shapes(file)) {
      Conv2dProblem& problem = shape.problem;
      problem.type = DataType::kFloat16;
      problem.set_dense_strides(true);
      for (const Conv2dProblem& of : {problem, with_output_rows(problem)}) {
        if (!reason(of).empty()) continue;
        for (const bool every : {false, true}) {
          const std::vector<Plan> plans = wgrad::make_plans(of, h200(), true, every);
          EXPECT_TRUE(!plans.empty() || (of.output.c != 1 && !every)) << shape;
          for (const Plan& plan : plans) {
            check(of, plan, text_of(shape, plan));
            ++taken;
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 1000);
}

// Where one of a tile's chunks is from the tile's first: along one axis of three, then the next.
ColumnAxis chunk_of(const Layout& layout, int32_t warpgroup, int32_t instruction, int32_t chunk) {
  const auto sum = [&](int32_t ColumnAxis::* member) {
    return warpgroup * layout.axes.warpgroup.*member +
           instruction * layout.axes.instruction.*member + chunk * layout.axes.chunk.*member;
  };
  return {sum(&ColumnAxis::channels), sum(&ColumnAxis::taps), sum(&ColumnAxis::rows),
          sum(&ColumnAxis::bytes)};
}

// The input's pixel that a chunk's operand has at a place of the patch is the one that the chunk's
// tap meets there.
void check_pixels(const Conv2dProblem& problem, const Layout& layout, const ColumnAxis& chunk,
                  const std::string& text) {
  const wgrad::Patch& patch = layout.patch;
  const int32_t pixel_bytes = layout.tile.width * 2;
  ASSERT_EQ(chunk.channels % layout.tile.width, 0) << text;
  const int32_t box = chunk.channels / layout.tile.width;
  ASSERT_LT(box, layout.input_boxes) << text;
  for (int32_t i = 0; i < patch.columns * patch.rows * patch.images; ++i) {
    const int32_t inner = patch.images_innermost ? patch.images : 1, outer = i / inner;
    const int32_t column = outer % patch.columns, row = outer / patch.columns % patch.rows;
    const int32_t image = i % inner + outer / patch.columns / patch.rows;
    const int32_t of_group = layout.output_rows
                                 ? row * layout.row_bytes + column / 8 * layout.group_bytes
                                 : i / 8 * layout.group_bytes;
    const int32_t at = chunk.bytes + of_group + i % 8 * pixel_bytes;
    ASSERT_EQ(at / layout.input_bytes, box) << text;
    const int32_t in_box = at % layout.input_bytes / pixel_bytes, pixel = in_box / inner;
    const int32_t x = pixel % layout.box_w, y = pixel / layout.box_w % layout.box_h;
    ASSERT_EQ(x * problem.stride_w, column * problem.stride_w + chunk.taps * problem.dilation_w)
        << text << " pixel " << i;
    ASSERT_EQ(y * problem.stride_h, row * problem.stride_h + chunk.rows * problem.dilation_h)
        << text << " pixel " << i;
    ASSERT_EQ(in_box % inner + pixel / layout.box_w / layout.box_h, image)
        << text << " pixel " << i;
  }
}

TEST(ChannelsLastWgradPlan, DescriptorsMeetTheTapsPixels) {
  for_each_plan({"reference", "edges", "eights", "networks"},
                [](const Conv2dProblem& problem, const Plan& plan, const std::string& text) {
                  const Layout& layout = plan.layout;
                  const wgrad::Tile& tile = layout.tile;
                  for (int32_t w = 0; w < tile.column_warpgroups; ++w) {
                    for (int32_t i = 0; i < tile.instructions; ++i) {
                      for (int32_t c = 0; c < tile.chunks; ++c) {
                        check_pixels(problem, layout, chunk_of(layout, w, i, c), text);
                      }
                    }
                  }
                });
}

// Each tap of a row, or each row, is in one tile once, as the kernels count them.
void check_taps(const TapSteps& steps, int32_t tile_taps, int64_t tiles, int64_t taps,
                const std::string& text) {
  std::vector<int> times(static_cast<size_t>(taps));
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = tile % steps.kinds + tile / steps.kinds * tile_taps * steps.step;
    for (int32_t i = 0; i < tile_taps; ++i) {
      const int64_t tap = first + i * steps.step;
      if (tap < taps) ++times[static_cast<size_t>(tap)];
    }
  }
  EXPECT_EQ(std::ranges::count(times, 1), taps) << text;
}

constexpr int32_t kBoxSteps = 8, kBoxPixels = 16 * kBoxSteps;

// Of a box of grad_output, where the eight values at a byte are: their pixel and channel, from one
// to the next.
struct Eight {
  int32_t pixel, channel;
};

template <bool kOutputRows>
std::map<int32_t, Eight> eights_of_box() {
  std::map<int32_t, Eight> eights;
  for (int32_t pixel = 0; pixel < kBoxPixels; ++pixel) {
    for (int32_t channel = 0; channel < 64; ++channel) {
      const int32_t column = pixel % wgrad::kRowColumns;
      const int32_t line = kOutputRows ? pixel / wgrad::kRowColumns * 64 + channel : pixel;
      const int32_t unit = (kOutputRows ? column : channel) / 8;
      if ((kOutputRows ? column : channel) % 8 != 0) continue;
      eights[line * 128 + (unit ^ line % 8) * 16] = {pixel, channel};
    }
  }
  return eights;
}

// Of the pieces of a box, which channels and pixels the lanes' eights are.
template <bool kOutputRows>
void expect_additions_meet_each_value_once() {
  const std::map<int32_t, Eight> eights = eights_of_box<kOutputRows>();
  std::map<int32_t, int> met;  // by byte
  for (int32_t piece = 0; piece < wgrad::bias_pieces<kOutputRows>(kBoxSteps); ++piece) {
    for (int32_t lane = 0; lane < 32; ++lane) {
      for (int32_t half = 0; half < wgrad::kPieceHalves<kOutputRows>; ++half) {
        const int32_t byte = wgrad::bias_eight<kOutputRows>(lane, piece) + half * wgrad::kHalfBytes;
        ++met[byte];
        const auto eight = eights.find(byte);
        ASSERT_NE(eight, eights.end());
        // Whose sums the lane has.
        EXPECT_EQ(eight->second.channel, kOutputRows ? half * 32 + lane : lane % 8 * 8);
      }
    }
  }
  EXPECT_EQ(met.size(), eights.size());
  for (const auto& [byte, times] : met) EXPECT_EQ(times, 1) << byte;
}

TEST(ChannelsLastWgradPlan, BiasAdditionsMeetEachValueOnce) {
  expect_additions_meet_each_value_once<false>();
  expect_additions_meet_each_value_once<true>();
}

// Kernels of a tile sum for the bias in the ways of its plans.
TEST(ChannelsLastWgradPlan, MultipliesForTheBiasWhereTilesHaveOneTap) {
  int multiply = 0, add = 0;
  for_each_plan({"networks"}, [&](const Conv2dProblem&, const Plan& plan, const std::string& text) {
    const Layout& layout = plan.layout;
    const bool one_tap = layout.multiplies_for_bias();
    EXPECT_TRUE(wgrad::has_kind_of(layout.tile, layout.output_rows, one_tap)) << text;
    ++(one_tap ? multiply : add);
  });
  EXPECT_GT(multiply, 0);
  EXPECT_GT(add, 0);
}

TEST(ChannelsLastWgradPlan, TilesAndPatchesCoverTheProblem) {
  for_each_plan(
      {"reference", "edges", "eights", "networks"},
      [](const Conv2dProblem& p, const Plan& plan, const std::string& text) {
        const Layout& layout = plan.layout;
        EXPECT_GE(layout.tiles_of_k * layout.tile.rows(), p.k) << text;
        EXPECT_GE(layout.tiles_of_c * layout.tile_c, p.c) << text;
        check_taps(layout.steps_s, layout.tile_s, layout.tiles_of_s, p.s, text);
        check_taps(layout.steps_r, layout.tile_r, layout.tiles_of_r, p.r, text);
        const wgrad::Pixels pixels(p, layout.flat);
        EXPECT_EQ(pixels.q * pixels.p * pixels.n, p.n * p.p() * p.q()) << text;
        EXPECT_GE(layout.strips * layout.patch.columns, pixels.q) << text;
        EXPECT_GE(layout.bands * layout.patch.rows, pixels.p) << text;
        EXPECT_GE(layout.patches / (layout.strips * layout.bands) * layout.patch.images, pixels.n)
            << text;
        EXPECT_EQ(layout.patch.columns * layout.patch.rows * layout.patch.images % 16, 0)
            << text << ": whole steps of the matrix instruction";
      });
}

// What a kernel is given of a plan's patches.
template <class Args>
Args patches_of(const Conv2dProblem& problem, const Plan& plan) {
  const Layout& layout = plan.layout;
  Args args{};
  sm90::set_problem(args, problem);
  args.columns = layout.patch.columns, args.rows = layout.patch.rows;
  args.images = layout.patch.images, args.images_innermost = layout.patch.images_innermost;
  args.strips = FastDiv(layout.strips), args.bands = FastDiv(layout.bands);
  args.groups = layout.groups;
  return args;
}

// Counts how often the pixels of a group of a patch are multiplied, which are neighbours along a
// row or the same pixel of eight images. Of those that grad_output has not, but the input may, all
// are beyond the ends of rows: from one up to another of a patch's columns.
struct Counts {
  const wgrad::Pixels& pixels;
  bool flat;
  std::vector<int> times = std::vector<int>(static_cast<size_t>(pixels.n * pixels.p * pixels.q));
  int32_t first_beyond = 0, end_beyond = 0;

  void add(const wgrad::Patch& patch, const sm90::PatchPlace& place, int32_t row, int32_t first) {
    for (int32_t i = first; i < first + 8; ++i) {
      const int32_t of_row = patch.columns * (patch.images_innermost ? patch.images : 1);
      const int32_t column = i % of_row / (patch.images_innermost ? patch.images : 1);
      const int64_t q = int64_t{place.strip} * patch.columns + column;
      const int64_t p = int64_t{place.band} * patch.rows + row + i / of_row % patch.rows;
      const int64_t n = int64_t{place.image} * patch.images +
                        (patch.images_innermost ? i % patch.images : i / of_row / patch.rows);
      if (n >= pixels.n) continue;
      if (q < pixels.q && p < pixels.p) {
        ++times[static_cast<size_t>((n * pixels.p + p) * pixels.q + q)];
      } else if (!flat) {
        EXPECT_LT(p, pixels.p) << "beyond the last row";
        EXPECT_GE(q, pixels.q);
        first_beyond = end_beyond == 0 ? column : std::min(first_beyond, column);
        end_beyond = std::max(end_beyond, column + 1);
      }
    }
  }
};

// Each of grad_output's pixels is multiplied once, and zeros beyond them only where the kernel
// looks for infinities.
TEST(ChannelsLastWgradPlan, MultipliesPixelsOfGradOutputAlone) {
  int odd = 0;
  for_each_plan({"edges", "eights"}, [&](const Conv2dProblem& problem, const Plan& plan,
                                         const std::string& text) {
    const Layout& layout = plan.layout;
    const wgrad::Pixels pixels(problem, layout.flat);
    Counts counts{pixels, layout.flat};
    const auto rows = patches_of<wgrad::RowsArguments>(problem, plan);
    const auto channels = patches_of<wgrad::Arguments>(problem, plan);
    for (int32_t i = 0; i < layout.patches; ++i) {
      const sm90::PatchPlace place(rows, i);
      const wgrad::PatchExtent extent =
          layout.output_rows ? rows.extent_of(place) : channels.extent_of(place);
      EXPECT_TRUE(extent.groups % 2 == 0 || layout.zero_bytes > 0) << text;
      EXPECT_EQ(extent.ends_row, place.strip == layout.strips - 1) << text;
      for (int32_t row = 0; row < extent.rows; ++row) {
        for (int32_t j = 0; j < extent.groups; ++j) counts.add(layout.patch, place, row, 8 * j);
      }
    }
    EXPECT_EQ(std::ranges::count(counts.times, 1), std::ssize(counts.times)) << text;
    EXPECT_EQ(layout.row_ends.first, counts.first_beyond) << text;
    if (counts.end_beyond > 0) {
      EXPECT_EQ(layout.row_ends.end, counts.end_beyond + layout.box_w - layout.patch.columns)
          << text << ": the last tap's";
    }
    if (layout.zero_bytes > 0) ++odd;
  });
  EXPECT_GT(odd, 100);
}

// The zeros that stand for a group are those of all chunks of an instruction.
TEST(ChannelsLastWgradPlan, HasZerosForEveryChunk) {
  for_each_plan({"reference", "edges", "eights", "networks"},
                [](const Conv2dProblem&, const Plan& plan, const std::string& text) {
                  const Layout& layout = plan.layout;
                  if (layout.zero_bytes == 0) return;
                  EXPECT_EQ(layout.zero_bytes % 128, 0) << text << ": the swizzle stays inside";
                  const int64_t last = (layout.tile.chunks - 1) * layout.axes.chunk.bytes;
                  EXPECT_GE(layout.zero_bytes, last + 8 * layout.tile.width * 2) << text;
                });
}

TEST(ChannelsLastWgradPlan, FitsTheChip) {
  for_each_plan(
      {"reference", "edges", "eights", "networks"},
      [](const Conv2dProblem& p, const Plan& plan, const std::string& text) {
        const Layout& layout = plan.layout;
        const int64_t ring = plan.stages * layout.stage_bytes();
        EXPECT_GE(plan.shared_bytes(), ring + layout.zero_bytes) << text;
        EXPECT_LE(plan.shared_bytes(), h200().shared_bytes_per_block) << text;
        EXPECT_EQ(layout.input_bytes % 1024, 0) << text << ": the swizzle begins anew";
        EXPECT_EQ(layout.grad_output_bytes % 1024, 0) << text << ": the swizzle begins anew";
        EXPECT_LE(layout.copied_bytes, layout.stage_bytes()) << text;
        EXPECT_LE(plan.cluster_blocks(), 8) << text;
        EXPECT_LE(plan.splits(), layout.patches) << text << ": a block has patches";
        EXPECT_EQ(layout.tiles_of_k % plan.cluster_tiles, 0) << text;
        EXPECT_TRUE(plan.cluster_splits == 1 || layout.tile.values() * 4 <= ring) << text;
        EXPECT_LE(plan.workspace_bytes, int64_t{64} << 20) << text;
        const int64_t sums = plan.outer_splits * (layout.tiles() * layout.tile.values() + p.k) * 4;
        EXPECT_EQ(plan.workspace_bytes, plan.outer_splits == 1 ? 0 : sums) << text;
      });
}

TEST(ChannelsLastWgradPlan, SaysWhyItDeclines) {
  EXPECT_EQ(reason(channels_last_problem("n2c64h16w16 k64r3s3 pad=1,1,1,1")), "");
  EXPECT_EQ(reason(channels_last_problem("n2c12h16w16 k64r1s1")),
            "input channels are no multiple of 8");
  EXPECT_EQ(reason(channels_last_problem("n2c16h16w16 k4r1s1")),
            "a tensor's strides are 0, or no multiples of 16 bytes");
  EXPECT_EQ(reason(channels_last_problem("n2c64h16w16 k64r3s3 groups=2")), "it has groups");
  EXPECT_EQ(reason(channels_last_problem("n0c64h16w16 k64r3s3")), "a tensor has no element");
  EXPECT_EQ(reason(channels_last_problem("n2c64h16w16 k64r3s3 pad=200000000,0,0,0")),
            "padding at the top is 200000000, more than 134217728");
  EXPECT_EQ(reason(channels_last_problem("n2c64h30w30 k64r1s1 stride=9,9")),
            "the window's stride is more than 8");
  Conv2dProblem problem = channels_last_problem("n2c64h16w16 k64r3s3");
  problem.type = DataType::kFloat32;
  EXPECT_EQ(reason(problem), "the element type is neither bfloat16 nor float16");
  problem = channels_last_problem("n2c64h16w16 k64r3s3");
  problem.set_dense_strides(false);
  EXPECT_EQ(reason(problem), "channels are not innermost");
  problem = with_output_rows(channels_last_problem("n2c64h16w16 k64r3s3"));
  EXPECT_EQ(reason(problem), "");
  problem.output.h += 4;
  EXPECT_EQ(reason(problem), "a tensor's strides are 0, or no multiples of 16 bytes");
  EXPECT_EQ(reason(with_output_rows(channels_last_problem("n2c64h16w16 k64r3s1"))),
            "rows of the output's gradient are innermost, and taps share no boxes of the input");
  problem = channels_last_problem("n2c64h16w16 k64r3s3");
  problem.input.w += 4;
  EXPECT_EQ(reason(problem), "a tensor's strides are 0, or no multiples of 16 bytes");
  problem = channels_last_problem("n2c64h16w16 k64r3s3");
  problem.output.n = 0;
  EXPECT_EQ(reason(problem), "a tensor's strides are 0, or no multiples of 16 bytes");
  Chip other = h200();
  other.compute_capability = 100;
  EXPECT_NE(wgrad::decline(problem, other).find("9.0"), std::string::npos);
}

// Rows, and images, may lie apart; then pixels are no single row.
TEST(ChannelsLastWgradPlan, TakesPixelsForOneRowWhereTheyAreEven) {
  EXPECT_TRUE(is_flat(channels_last_problem("n2c64h16w16 k64r1s1")));
  EXPECT_TRUE(is_flat(channels_last_problem("n64c64h1w1 k64r1s1")));
  EXPECT_FALSE(is_flat(channels_last_problem("n2c64h16w16 k64r1s1 stride=2,2")));
  EXPECT_FALSE(is_flat(channels_last_problem("n2c64h16w16 k64r1s1 pad=1,0,0,0")));
  EXPECT_FALSE(is_flat(channels_last_problem("n2c64h16w16 k64r3s3 pad=1,1,1,1")));
  Conv2dProblem problem = channels_last_problem("n2c64h16w16 k64r1s1");
  problem.input.h += 64;
  problem.input.n = 16 * problem.input.h;
  EXPECT_EQ(reason(problem), "");
  EXPECT_FALSE(is_flat(problem));
}

// Rows of 7, 14 and 28 pixels are no whole eights, images are. Of rows of 250 and 1022 pixels
// hardly one is wasted.
TEST(ChannelsLastWgradPlan, PutsImagesSideBySideWhereRowsAreNoEights) {
  const auto best = [](const char* text) {
    return wgrad::make_plans(channels_last_problem(text), h200(), false).front().layout;
  };
  for (const char* text : {"n64c256h14w14 k256r3s3 pad=1,1,1,1", "n64c512h7w7 k512r3s3 pad=1,1,1,1",
                           "n64c128h28w28 k128r3s3 pad=1,1,1,1"}) {
    EXPECT_TRUE(best(text).patch.images_innermost) << text;
  }
  for (const char* text : {"n8c64h512w256 k128r5s7", "n16c16h1024w1024 k128r3s3"}) {
    EXPECT_FALSE(best(text).patch.images_innermost) << text;
  }
  EXPECT_FALSE(best("n1c256h14w14 k256r3s3 pad=1,1,1,1").patch.images_innermost);
  EXPECT_FALSE(best("n64c64h1w1 k64r1s1").patch.images_innermost) << "all pixels are one row";
}

// Of few channels, which fill no tile by themselves.
TEST(ChannelsLastWgradPlan, SharesBoxesAmongTapsThatAStrideApart) {
  const auto best = [](const char* text) {
    return wgrad::make_plans(channels_last_problem(text), h200(), false).front().layout;
  };
  const Layout strided = best("n8c64h128w128 k128r4s4 stride=2,2 pad=1,1,1,1");
  EXPECT_EQ(strided.tile_s, 2);
  EXPECT_EQ(strided.steps_s.step, 2);
  EXPECT_EQ(strided.box_w, strided.patch.columns + 1) << "of every other column";
  const Layout dilated = best("n8c64h129w129 k128r3s3 stride=2,2 pad=2,2,2,2 dil=2,2");
  EXPECT_GE(dilated.tile_s, 2);
  EXPECT_EQ(dilated.steps_s.step, 1);
  EXPECT_EQ(dilated.steps_s.shift, 1);
  EXPECT_EQ(best("n8c64h128w128 k128r2s2 stride=2,2").tile_s, 1) << "no tap has another's pixels";
}

// A filter of one tile: only splits of the pixels fill the chip.
TEST(ChannelsLastWgradPlan, SplitsPixelsWhereTilesAreFew) {
  const Plan plan =
      wgrad::make_plans(channels_last_problem("n32c64h56w56 k64r1s1"), h200(), false).front();
  EXPECT_GE(plan.splits() * plan.layout.tiles(), 100);
  const Plan many =
      wgrad::make_plans(channels_last_problem("n4c1024h32w32 k1024r3s3 pad=1,1,1,1"), h200(), false)
          .front();
  EXPECT_LE(many.outer_splits, 2);
}

// Clusters need not have a power of two of blocks, and where a filter is one tile a second kernel
// may add what large ones have added.
TEST(ChannelsLastWgradPlan, OffersClustersThatRunAtOnce) {
  const auto has = [](const char* shape, bool every, const char* text) {
    const auto plans = wgrad::make_plans(channels_last_problem(shape), h200(), true, every);
    return std::ranges::any_of(plans, [&](const Plan& plan) {
      std::ostringstream os;
      os << plan;
      return os.str().find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(has("n4c264h20w20 k256r1s1", true, " 1 x 5 splits"));
  EXPECT_TRUE(has("n64c64h56w56 k64r1s1", false, " 15 x 8 splits"));
}

// Of small layers of networks.txt on an H100. Those of one tap are not on record as such: they are
// of the plans timed when the layers took the least.
TEST(ChannelsLastWgradPlan, TimesThePlansThatWereFastest) {
  struct Fastest {
    const char *shape, *plan;
  };
  static constexpr Fastest kFastest[] = {
      {"resnet50_2_3x3",
       "tile 64 x (3 x rows x 3 x taps x 32), patches of 1 x 14 x 8 pixels in 9 stages, 66 x 1 "
       "splits"},
      {"resnet50_3_3x3_first",
       "tile 64 x (2 x channels x 64), patches of 8 x 1 x 14 pixels, images innermost, in 5 "
       "stages, 7 x 1 splits"},
      {"resnet50_3_3x3",
       "tile 64 x (3 x rows x 3 x taps x 64), patches of 8 x 1 x 14 pixels, images innermost, in 3 "
       "stages, 33 x 1 splits"},
      {"resnet50_4_3x3_first",
       "tile 128 x (4 x channels x 64), patches of 16 x 1 x 5 pixels, images innermost, in 3 "
       "stages, 7 x 1 splits"},
      {"resnet50_4_3x3",
       "tile 64 x (3 x rows x 3 x taps x 64), patches of 8 x 1 x 14 pixels, images innermost, in 3 "
       "stages, 8 x 1 splits"},
      {"resnet50_5_3x3_first",
       "tile 128 x (2 x taps x 64), patches of 16 x 1 x 7 pixels, images innermost, in 5 stages, "
       "1 x 1 splits"},
      {"resnet50_5_3x3",
       "tile 64 x (3 x rows x 3 x taps x 64), patches of 16 x 1 x 7 pixels, images innermost, in 3 "
       "stages, 1 x 2 splits"},
      {"convnext_96_down",
       "tile 192 x (2 x channels x 64), patches of 8 x 1 x 14 pixels, images innermost, in 3 "
       "stages, 33 x 1 splits"},
      {"convnext_192_down",
       "tile 128 x (3 x channels x 64), patches of 8 x 1 x 14 pixels, images innermost, in 3 "
       "stages, 1 x 8 splits"},
      {"convnext_384_down",
       "tile 128 x (2 x channels x 3 x channels x 64), patches of 16 x 1 x 4 pixels, images "
       "innermost, in 3 stages, 1 x 4 splits"},
      {"resnet50_4_reduce",
       "tile 64 x (2 x channels x 2 x channels x 64), patches of 1 x 1 x 64 pixels in 5 stages, "
       "8 x 1 splits"},
      {"resnet50_5_expand",
       "tile 64 x (2 x channels x 64), patches of 1 x 1 x 64 pixels in 9 stages, 1 x 1 splits"},
      {"resnet50_5_expand",
       "tile 64 x (2 x channels x 2 x channels x 64), patches of 1 x 1 x 64 pixels in 5 stages, "
       "1 x 2 splits"},
      {"resnet50_5_skip",
       "tile 64 x (2 x channels x 2 x channels x 64), patches of 16 x 1 x 7 pixels, images "
       "innermost, in 3 stages, 1 x 1 splits"},
  };
  std::vector<Shape> shapes = load_shapes("networks");
  for (const Fastest& fastest : kFastest) {
    const auto shape = std::find_if(shapes.begin(), shapes.end(),
                                    [&](const Shape& of) { return of.name == fastest.shape; });
    ASSERT_NE(shape, shapes.end()) << fastest.shape;
    Conv2dProblem problem = shape->problem;
    problem.type = DataType::kBFloat16;
    problem.set_dense_strides(true);
    const auto plans =
        timed_plans_of("channels_last_wgrad", {.problem = problem,
                                               .direction = Direction::kWgrad,
                                               .chip = chip_of("NVIDIA H100 80GB HBM3"),
                                               .with_bias = true});
    EXPECT_TRUE(std::any_of(plans.begin(), plans.end(),
                            [&](const FamilyPlan& plan) { return plan.says(fastest.plan); }))
        << fastest.shape << ": " << fastest.plan;
  }
}

}  // namespace
}  // namespace haloconv::testing
