// The all_phases kernel followed on the host: windows of positions as the loader fills them, each
// shift's distance, the product's columns and the places of results by the numbers that the kernel
// is given; held against the definition. Which thread has which, and the order of the packed
// filter, are not followed.
#include <gtest/gtest.h>

#include <limits>

#include "chip/known_chips.h"
#include "conv2d/families/all_phases/arguments.h"
#include "conv2d/families/all_phases/plan.h"
#include "cpp_tests/families/all_phases/edge_shapes.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace all_phases;

// A position's image, and its row and column of the image.
struct Position {
  int32_t image, row, column;

  Position(const Arguments& args, int32_t number) {
    const int32_t flat_row = args.row_positions.quotient(number);
    column = number - flat_row * args.row_positions.divisor;
    image = args.image_positions.quotient(flat_row);
    row = flat_row - image * args.image_positions.divisor;
  }
};

class Emulation {
 public:
  Emulation(const Conv2dProblem& p, const Plan& plan, const Values& source, const Values& filter)
      : p_(p), tile_(plan.tile), args_(*plan.arguments), source_(source), filter_(filter) {}

  Values run() {
    Values result(input_count(p_), std::numeric_limits<double>::quiet_NaN());
    for (int32_t index = 0; index < args_.tiles; ++index) {
      const int32_t quotient = index / args_.column_tiles.divisor;
      compute(args_.columns_of(index % args_.column_tiles.divisor, tile_.columns),
              quotient * kMathGroups * 64 * tile_.blocks, result);
    }
    return result;
  }

 private:
  // The source's value at a position, zero where it has none.
  double value(int32_t position, int64_t channel) const {
    const Position at(args_, position);
    const int32_t p = at.row - args_.h.source_at, q = at.column - args_.w.source_at;
    if (at.image >= p_.n || p < 0 || p >= p_.p() || q < 0 || q >= p_.q()) return 0;
    return source_[((at.image * p_.k + channel) * p_.p() + p) * p_.q() + q];
  }

  void compute(const TileColumns& columns, int32_t first, Values& result) {
    if (tile_.packs_source) {
      EXPECT_LE(first + args_.window, args_.packed_positions);
    }
    for (int32_t period = 0; period < kMathGroups * 64 * tile_.blocks; ++period) {
      const Position at(args_, first + period);
      if (at.image >= p_.n || at.row >= args_.h.periods || at.column >= args_.w.periods) continue;
      for (int32_t number = columns.first;
           number < std::min(columns.first + tile_.columns, args_.columns); ++number) {
        const ColumnOf of = args_.column_of(number);
        const int32_t y = at.row * args_.h.stride + args_.h.first + of.row;
        const int32_t x = at.column * args_.w.stride + args_.w.first + of.column;
        if (y < 0 || y >= p_.h || x < 0 || x >= p_.w) continue;
        const int64_t channel = int64_t{columns.product} * args_.channels.divisor + of.channel;
        double sum = 0;
        for (int32_t u = 0; u < args_.h.shifts; ++u) {
          for (int32_t v = 0; v < args_.w.shifts; ++v) {
            const int32_t r = of.row + u * args_.h.stride, s = of.column + v * args_.w.stride;
            if (r >= p_.r || s >= p_.s) continue;
            const int32_t beyond =
                (args_.h.shifts - 1 - u) * args_.w.positions + args_.w.shifts - 1 - v;
            ASSERT_LT(period + beyond, args_.window);
            for (int64_t i = 0; i < args_.source_channels; ++i) {
              const int64_t k = int64_t{columns.product} * args_.source_channels + i;
              if (k / p_.group_k() != channel / p_.group_c()) continue;  // a weight of zero
              const int64_t at = k * p_.group_c() + channel % p_.group_c();
              sum += value(first + period + beyond, k) * filter_[(at * p_.r + r) * p_.s + s];
            }
          }
        }
        double& to = result.at(((at.image * p_.c + channel) * p_.h + y) * p_.w + x);
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = sum;
      }
    }
  }

  const Conv2dProblem& p_;
  const Tile& tile_;
  const Arguments& args_;
  const Values &source_, &filter_;
};

class AllPhasesEmulation : public ::testing::TestWithParam<TypedShape> {};

TEST_P(AllPhasesEmulation, IsTheDefinition) {
  for (const bool channels_last : {false, true}) {
    Conv2dProblem p = GetParam().problem;
    p.set_dense_strides(channels_last);
    ASSERT_EQ(declines(p, h200()), "");
    const Values source = small_integers(output_count(p), 1),
                 filter = small_integers(filter_count(p), 2);
    const Values expected = reference_dgrad(p, source, filter);
    const std::vector<Plan> plans = make_plans(p, h200());
    ASSERT_FALSE(plans.empty());
    for (const Plan& plan : plans) {
      ASSERT_EQ(Emulation(p, plan, source, filter).run(), expected) << p << " | " << plan;
    }
  }
}

// The type changes nothing but the size of chunks.
std::vector<TypedShape> emulated_shapes() {
  std::vector<TypedShape> shapes = all_phases_shapes();
  std::erase_if(shapes, [](const TypedShape& shape) {
    return shape.problem.type != DataType::kBFloat16 || shape.problem.flop() > 3e7;
  });
  return shapes;
}

// How many plans have groups apart, and how many have them together.
std::pair<int, int> plans_apart_and_together(const char* shape) {
  std::pair<int, int> counts;
  for (const Plan& plan : make_plans(parse_shape(shape).problem, h200())) {
    ++(plan.tile.has_groups_apart ? counts.first : counts.second);
  }
  return counts;
}

TEST(AllPhasesGroups, AreApartOrTogether) {
  const auto [apart, together] =
      plans_apart_and_together("a n2c32h16w16 k32r4s4 stride=2,2 pad=1,1,1,1 groups=4");
  EXPECT_GT(apart, 0);
  EXPECT_GT(together, 0);
  EXPECT_EQ(plans_apart_and_together("a n2c24h16w16 k24r4s4 stride=2,2 groups=12").first, 0);
  EXPECT_EQ(plans_apart_and_together("a n2c24h16w16 k24r4s4 stride=2,2").first, 0);
  EXPECT_EQ(plans_apart_and_together("a n2c256h16w16 k256r4s4 stride=2,2 groups=32").second, 0);
  EXPECT_EQ(declines(parse_shape("a n2c256h16w16 k256r4s4 stride=2,2 groups=128").problem, h200()),
            "it has more than 128 channels, in groups of fewer than 4");
}

// Of FCN's upsampling by 8 a column tile's 35 tiles would otherwise be those of 12 blocks.
TEST(AllPhasesBlocks, ComeToDifferentColumnTiles) {
  Arguments args{};
  args.column_tiles = FastDiv(11);
  args.tiles = 35 * 11;
  const Tile wide = {.blocks = 2, .columns = 128}, narrow = {.blocks = 1, .columns = 16};
  EXPECT_EQ(blocks_of(args, wide, 132), 131);
  EXPECT_EQ(blocks_of(args, narrow, 132), 132);
  // Of 21 column tiles a block comes to every third one, once.
  args.column_tiles = FastDiv(21);
  args.tiles = 35 * 21;
  EXPECT_EQ(blocks_of(args, wide, 132), 132);
  args.column_tiles = FastDiv(11);
  args.tiles = 120;
  EXPECT_EQ(blocks_of(args, wide, 132), 120);
  // Fewer blocks would have more tiles each.
  args.tiles = 264;
  EXPECT_EQ(blocks_of(args, wide, 132), 132);
}

INSTANTIATE_TEST_SUITE_P(Edges, AllPhasesEmulation, ::testing::ValuesIn(emulated_shapes()),
                         name_of_typed);

}  // namespace
}  // namespace haloconv::testing
