// The planner of weight gradients as products of matrices: what it declines, that its splits cover
// the pixels and fit each chip, and where operands lie in shared memory.
#include "conv2d/families/implicit_gemm_wgrad/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "chip/known_chips.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

namespace wgrad = implicit_gemm_wgrad;
using wgrad::Plan;

// Every split has pixels, the last one's end with the problem's, and no kernel counts beyond 32
// bits.
void check_splits(const Conv2dProblem& p, const Plan& plan) {
  const wgrad::Arguments& args = plan.args;
  const int64_t pixels = p.n * p.p() * p.q();
  EXPECT_EQ(args.geometry.pixels, pixels);
  EXPECT_EQ(args.split_pixels % wgrad::step_pixels(static_cast<int>(size_of(p.type))), 0)
      << text_of(p, plan);
  EXPECT_GE(args.splits * args.split_pixels, pixels) << text_of(p, plan);
  EXPECT_LT((args.splits - 1) * args.split_pixels, pixels) << text_of(p, plan);
  EXPECT_LE(args.split_pixels, int64_t{1} << 28) << text_of(p, plan);
  EXPECT_EQ(plan.workspace_bytes, args.splits * args.split_elements() * 4) << text_of(p, plan);
  EXPECT_GE(args.kernel_columns, p.group_c() * p.r * p.s) << text_of(p, plan);
  if (plan.access == wgrad::Access::kUnits) {
    EXPECT_EQ(args.kernel_columns, p.group_c() * p.r * p.s) << text_of(p, plan);
  }
  EXPECT_EQ(int64_t{args.row_tiles}, ceil_div(p.group_k(), plan.tile.rows)) << text_of(p, plan);
  EXPECT_EQ(int64_t{args.column_tiles}, ceil_div(args.kernel_columns, plan.tile.columns));
}

// Also on chips whose blocks have 99 or 163 KB.
TEST(ImplicitGemmWgradPlan, CoversThePixelsAndFitsEachChip) {
  size_t count = 0;
  for (const KnownChip& known : known_chips()) {
    const Chip chip = chip_of(known.name);
    for (const char* file : {"reference", "edges", "eights", "layers", "networks", "transposed"}) {
      for (const Shape& shape : load_shapes(file)) {
        for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
          Conv2dProblem p = shape.problem;
          p.type = type;
          if (!wgrad::declines(p, Direction::kWgrad, chip, true).empty()) continue;
          for (const bool with_bias : {false, true}) {
            p.set_dense_strides(with_bias);
            for (const Plan& plan : wgrad::make_plans(p, chip, with_bias, true, true)) {
              ++count;
              check_splits(p, plan);
              EXPECT_EQ(plan.args.geometry.has_bias_column, with_bias);
              EXPECT_GT(plan.estimated_ms, 0) << text_of(p, plan);
              EXPECT_LE(
                  wgrad::shared_bytes(plan.tile, plan.args.stages, static_cast<int>(size_of(type))),
                  chip.shared_bytes_per_block)
                  << known.name << ' ' << text_of(p, plan);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(count, 0u);
}

// A load's 16 bytes of eight pixels, and the words of float32 that a warp reads at once, lie in all
// banks; units of different pixels or numbers lie apart.
TEST(ImplicitGemmWgradPlan, OperandsAreInAllBanks) {
  for (const wgrad::Tile& tile : wgrad::kTiles) {
    for (const int values : {tile.rows, tile.columns}) {
      for (const int bytes : {2, 4}) {
        const int pitch = values * bytes, units = pitch / wgrad::kUnitBytes;
        const int pixels = wgrad::step_pixels(bytes);
        ASSERT_EQ(pitch % 128, 0);
        std::set<int32_t> places;
        for (int pixel = 0; pixel < pixels; ++pixel) {
          for (int unit = 0; unit < units; ++unit) {
            places.insert(wgrad::place_of_unit(pixel, unit, pitch, bytes));
          }
        }
        EXPECT_EQ(places.size(), static_cast<size_t>(pixels * units));
        EXPECT_EQ(*places.rbegin(), pixels * pitch - wgrad::kUnitBytes);
        const int at_once = bytes == 4 ? 4 : 8;  // pixels
        for (int first = 0; first < pixels; first += at_once) {
          for (int unit = 0; unit < units; unit += 8 / at_once) {
            std::set<int32_t> banks;
            for (int i = 0; i < 8; ++i) {
              banks.insert(
                  wgrad::place_of_unit(first + i % at_once, unit + i / at_once, pitch, bytes) %
                  128);
            }
            EXPECT_EQ(banks.size(), 8u) << values << " of " << bytes << " bytes";
          }
        }
      }
    }
  }
}

// The kernel adds to a place, or flips bits of it, where a unit's number is greater by 2 or more.
TEST(ImplicitGemmWgradPlan, PlacesOfAWarpsUnitsDifferInBits) {
  for (const wgrad::Tile& tile : wgrad::kTiles) {
    const int pitch = tile.columns * 2;
    for (int first = 0; first < tile.columns; first += tile.warp_columns) {
      for (int pixel = 0; pixel < 8; ++pixel) {
        for (int second = 0; second < 2; ++second) {
          const int32_t unit = first / 8 + second;
          const int32_t place = wgrad::place_of_unit(pixel, unit, pitch, 2);
          for (int j = 0; j < tile.warp_columns / 16; ++j) {
            EXPECT_EQ(place ^ j * 2 * wgrad::kUnitBytes,
                      wgrad::place_of_unit(pixel, unit + j * 2, pitch, 2));
          }
        }
      }
    }
    for (int first = 0; first < tile.columns; first += tile.warp_columns) {
      for (int pixel = 0; pixel < 4; ++pixel) {
        for (int second = 0; second < 2; ++second) {
          const int32_t unit = first / 4 + second;
          const int32_t place = wgrad::place_of_unit(pixel, unit, pitch * 2, 4);
          for (int j = 0; j < tile.warp_columns / 8; ++j) {
            EXPECT_EQ((place ^ j % 4 * 2 * wgrad::kUnitBytes) + j / 4 * 8 * wgrad::kUnitBytes,
                      wgrad::place_of_unit(pixel, unit + j * 2, pitch * 2, 4));
          }
          EXPECT_EQ(place + 4 * pitch * 2, wgrad::place_of_unit(pixel + 4, unit, pitch * 2, 4));
        }
      }
    }
  }
}

TEST(ImplicitGemmWgradPlan, SaysWhyItDeclines) {
  const auto reason = [](const Conv2dProblem& p, bool tf32 = true) {
    return wgrad::declines(p, Direction::kWgrad, h200(), tf32);
  };
  const Conv2dProblem taken = channels_last_problem("n2c64h8w8 k64r3s3 groups=2");
  EXPECT_EQ(reason(taken), "");
  EXPECT_EQ(wgrad::declines(taken, Direction::kDgrad, h200(), true),
            "it computes weight gradients only");
  EXPECT_EQ(reason(channels_last_problem("n2c12h8w8 k64r3s3 groups=4")),
            "a group has fewer than 8 channels");
  EXPECT_EQ(reason(channels_last_problem("n2c64h8w8 k64r3s3", DataType::kFloat32), false),
            "float32 may not be rounded to TF32");
}

TEST(ImplicitGemmWgradPlan, CopiesUnitsWhereItCan) {
  const auto access = [](const Conv2dProblem& p, bool is_aligned = true) {
    return wgrad::make_plans(p, h200(), true, is_aligned, false).front().access;
  };
  Conv2dProblem p = channels_last_problem("n2c64h8w8 k64r3s3");
  EXPECT_EQ(access(p), wgrad::Access::kUnits);
  EXPECT_EQ(access(p, false), wgrad::Access::kElements);
  EXPECT_EQ(access(channels_last_problem("n2c3h8w8 k64r3s3")), wgrad::Access::kElements);
  p.set_dense_strides(false);
  EXPECT_EQ(access(p), wgrad::Access::kElements);
}

}  // namespace
}  // namespace haloconv::testing
