// Descents: that what lanes read of a line is the row's or zeros and lies in all banks, in which
// order fragments are kept, and where there are descents.
#include "conv2d/families/implicit_gemm/descents/descents.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::descent_line_bytes;
using implicit_gemm::descent_line_units;
using implicit_gemm::DescentLine;
using implicit_gemm::kDescentColumns;
using implicit_gemm::kDescentTaps;
using implicit_gemm::Plan;

// A line of a row of so many columns, whose pixels count from 1 on, after the copies and the zeros
// before the row. Empty where there is no copy.
template <int kElementBytes>
std::vector<std::optional<int32_t>> staged_line(const DescentLine<kElementBytes>& line,
                                                int32_t columns) {
  constexpr int32_t kPixels = DescentLine<kElementBytes>::kUnitPixels;
  std::vector<std::optional<int32_t>> staged(descent_line_units(kElementBytes) * kPixels);
  for (int32_t unit = 0; unit < descent_line_units(kElementBytes); ++unit) {
    if (!line.has_unit(unit)) continue;
    const int32_t copied = line.unit_bytes(unit, columns) / kElementBytes;
    for (int32_t i = 0; i < kPixels; ++i) {
      staged[unit * kPixels + i] =
          i < copied ? line.first - line.shift + unit * kPixels + i + 1 : 0;
    }
  }
  // As clear_before_row() does, by words.
  constexpr int32_t kWordPixels = 4 / kElementBytes;
  const int32_t before = line.before();
  for (int32_t i = 0; i < kPixels; ++i) {
    const int32_t word = (before & -kPixels) + i / kWordPixels * kWordPixels;
    const auto pixel = static_cast<size_t>((before & -kPixels) + i);
    if (word < before && pixel < staged.size()) staged[pixel] = 0;
  }
  return staged;
}

// Rows and what is met of them begin at words.
template <int kElementBytes>
void expect_lines_of_rows() {
  constexpr int32_t kWordPixels = 4 / kElementBytes;
  for (const int32_t columns : {1, 2, 3, 5, 94, 95, 96, 97, 98, 99, 200}) {
    for (int32_t first = -110; first < columns + 3; first += kWordPixels) {
      for (uint32_t shift = 0; shift < 16 / kElementBytes; shift += kWordPixels) {
        const DescentLine<kElementBytes> line(first, 64 + shift * kElementBytes);
        ASSERT_EQ(line.shift, static_cast<int32_t>(shift));
        const auto staged = staged_line(line, columns);
        for (int32_t i = 0; i < kDescentColumns + kDescentTaps - 1; ++i) {
          const int32_t column = first + i;
          const int32_t expected = column >= 0 && column < columns ? column + 1 : 0;
          ASSERT_EQ(staged.at(line.shift + i), expected)
              << "pixel " << i << " from " << first << " of " << columns << ", shift " << shift;
        }
      }
    }
  }
}

TEST(ImplicitGemmDescents, LinesHaveTheRowAndZeros) {
  expect_lines_of_rows<4>();
  expect_lines_of_rows<2>();
}

// A load of eight neighbours of four channels, or of eight words of four even ones.
TEST(ImplicitGemmDescents, PixelsAreInAllBanks) {
  for (const int32_t element_bytes : {4, 2}) {
    const int32_t channel_step = implicit_gemm::descent_channels_alike(element_bytes);
    std::set<int32_t> banks;
    for (int32_t lane = 0; lane < 32; ++lane) {
      const int32_t line = lane % 4 * channel_step * descent_line_bytes(element_bytes);
      banks.insert((line / 4 + lane / 4) % 32);
    }
    EXPECT_EQ(banks.size(), 32u) << element_bytes;
  }
}

// The one launch by descents that `text` has, or none.
std::optional<Plan> plan_with_descents(const std::string& text, Direction direction,
                                       const Chip& chip, DataType type = DataType::kFloat32) {
  Conv2dProblem p = channels_last_problem(text, type);
  p.set_dense_strides(false);
  for (const Plan& plan : implicit_gemm::make_plans(p, direction, chip, true)) {
    if (plan.has_descents()) return plan;
  }
  return std::nullopt;
}

// A fragment's tap meets the window's column, and its row of results, counted from the eldest
// whose sums a source row completes, where that row is the window's last.
TEST(ImplicitGemmDescents, FragmentsAreInTheOrderOfTheProducts) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    const std::optional<Plan> plan =
        plan_with_descents("n1c16h8w16 k16r3s3 pad=1,1,1,1", direction, chip_of("NVIDIA H200"));
    ASSERT_TRUE(plan);
    const Gather& g = plan->strips->geometry;
    std::set<int32_t> fragments;
    for (int32_t place = 0; place < kDescentTaps * kDescentTaps; ++place) {
      const int32_t fragment = implicit_gemm::descent_fragment(g, place);
      fragments.insert(fragment);
      const int32_t y = fragment / kDescentTaps, x = fragment % kDescentTaps;
      EXPECT_EQ(
          x * g.axis_w.shift_step + implicit_gemm::taps_before(kDescentTaps, g.axis_w.shift_step),
          place / kDescentTaps);
      EXPECT_EQ(
          y * g.axis_h.shift_step + implicit_gemm::taps_before(kDescentTaps, g.axis_h.shift_step),
          kDescentTaps - 1 - place % kDescentTaps);
    }
    EXPECT_EQ(fragments.size(), size_t{kDescentTaps * kDescentTaps});
  }
}

TEST(ImplicitGemmDescents, AreWhereTheDestinationHasFewChannels) {
  const Chip h200 = chip_of("NVIDIA H200");
  const auto rows = [&](const char* text, Direction direction = Direction::kDgrad,
                        DataType type = DataType::kFloat32) {
    const std::optional<Plan> plan = plan_with_descents(text, direction, h200, type);
    return plan ? plan->strips->strips.rows : 0;
  };
  // 11 x 16 columns of 6 descents: one for each warp of an H200.
  EXPECT_EQ(rows("n16c16h1024w1024 k128r3s3"), 171);
  EXPECT_GT(rows("n1c16h64w64 k128r3s3"), 0);
  EXPECT_GT(rows("n1c64h64w64 k12r3s3 pad=1,1,1,1", Direction::kFprop), 0);
  EXPECT_GT(rows("n1c48h64w64 k48r3s3 groups=3"), 0);
  EXPECT_EQ(rows("n16c16h1024w1024 k128r3s3", Direction::kDgrad, DataType::kBFloat16), 171);
  EXPECT_GT(rows("n1c16h64w64 k128r3s3 pad=1,1,1,1", Direction::kDgrad, DataType::kFloat16), 0);
  EXPECT_EQ(rows("n1c17h64w64 k128r3s3"), 0);
  EXPECT_EQ(rows("n1c16h64w64 k128r3s5"), 0);
  EXPECT_EQ(rows("n1c16h64w64 k128r3s3 dil=2,1"), 0);
  EXPECT_EQ(rows("n1c16h64w64 k128r3s3 stride=2,2"), 0);
  EXPECT_EQ(rows("n1c16h65w65 k128r3s3"), 0);  // channels begin at words of a unit
  EXPECT_EQ(rows("n1c16h64w65 k128r3s3", Direction::kDgrad, DataType::kBFloat16), 0);  // or of none
  EXPECT_EQ(rows("n1c16h64w64 k1024r3s3"), 0);  // the filter has no room
}

TEST(ImplicitGemmDescents, HaveFewerWarpsWhereABlockHasLessMemory) {
  Chip chip = chip_of("NVIDIA H200");
  for (const int64_t kilobytes : {227, 163, 99}) {
    chip.shared_bytes_per_block = kilobytes << 10;
    const std::optional<Plan> plan =
        plan_with_descents("n1c16h64w64 k64r3s3", Direction::kDgrad, chip);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->strips->strips.groups, kilobytes > 99 ? 8 : 4);
    EXPECT_LE(implicit_gemm::descent_shared_bytes(*plan->strips), chip.shared_bytes_per_block);
  }
}

TEST(ImplicitGemmDescents, AreExpectedToBeFastest) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = channels_last_problem("n16c16h1024w1024 k128r3s3", type);
    p.set_dense_strides(false);
    const std::vector<Plan> plans =
        implicit_gemm::make_plans(p, Direction::kDgrad, chip_of("NVIDIA H200"), true);
    EXPECT_TRUE(plans.front().has_descents()) << plans.front();
  }
}

}  // namespace
}  // namespace haloconv::testing
