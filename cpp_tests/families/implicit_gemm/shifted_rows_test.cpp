// Rows of the source that are copied as they lie in memory: that a window's pixels are those of the
// image, and zeros beside it, wherever rows begin; and which plans have such rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::Arguments;
using implicit_gemm::kShiftedBytes;
using implicit_gemm::kWordBytes;
using implicit_gemm::Plan;

constexpr int32_t kBeside = -1;  // what memory has beside a row

// One row of an image, whose element n is n + 1, in memory from so many bytes of a unit on.
struct Row {
  int32_t columns, element_bytes, begin;

  // The bytes' element at a distance from the row's first byte.
  int32_t at(int32_t byte) const {
    const bool inside = byte >= 0 && byte < columns * element_bytes;
    return inside ? byte / element_bytes + 1 : kBeside;
  }
};

// As ShiftedLoader copies a row of a window that begins with the image's column `w` and has so many
// columns, at a pitch: of each byte of the staged row its element, 0 where zeros are copied.
std::vector<int32_t> staged(const Row& row, int32_t w, int32_t columns, int32_t pitch) {
  const int32_t row_bytes = implicit_gemm::shifted_row(pitch, row.element_bytes);
  const int32_t shift = (row.begin + w * row.element_bytes) & (kShiftedBytes - 1);
  std::vector<int32_t> bytes(row_bytes, kBeside);
  for (int32_t unit = 0; unit < row_bytes; unit += kShiftedBytes) {
    const int32_t behind = unit - shift;
    if (behind >= columns * row.element_bytes) continue;
    const int32_t first = w * row.element_bytes + behind;
    EXPECT_EQ((row.begin + first) & (kShiftedBytes - 1), 0);
    const int32_t copied =
        implicit_gemm::shifted_unit_bytes(first, row.columns * row.element_bytes);
    // A copy of anything has a byte of the row, so that it reads no unit that has none.
    if (copied > 0) {
      EXPECT_TRUE(row.at(std::max(first, 0)) != kBeside && first + copied > 0);
    }
    for (int32_t i = 0; i < kShiftedBytes; ++i)
      bytes[unit + i] = i < copied ? row.at(first + i) : 0;
  }
  return bytes;
}

// As it turns the row.
void check(const Row& row, int32_t w, int32_t columns, int32_t pitch) {
  const std::vector<int32_t> bytes = staged(row, w, columns, pitch);
  const int32_t shift = (row.begin + w * row.element_bytes) & (kShiftedBytes - 1);
  EXPECT_EQ(shift % kWordBytes, 0);
  for (int32_t x = 0; x < columns; ++x) {
    for (int32_t i = 0; i < row.element_bytes; ++i) {
      const auto place = static_cast<size_t>(shift + x * row.element_bytes + i);
      ASSERT_LT(place, bytes.size());
      const int32_t element = x < -w ? 0 : bytes[place];
      const bool inside = w + x >= 0 && w + x < row.columns;
      EXPECT_EQ(element, inside ? w + x + 1 : 0)
          << "column " << x << " of " << columns << " from " << w << " on, of " << row.columns
          << " columns of " << row.element_bytes << " bytes from " << row.begin << " on";
    }
  }
}

TEST(ImplicitGemmShiftedRows, FindTheImagesPixels) {
  for (const int32_t element_bytes : {2, 4}) {
    for (int32_t begin = 0; begin < kShiftedBytes; begin += kWordBytes) {
      for (const int32_t row_columns : {1, 2, 7, 22, 67}) {
        // Windows begin with words.
        for (int32_t w = -20; w <= row_columns; w += kWordBytes / element_bytes) {
          for (const int32_t columns : {16, 18, 24})
            check({row_columns, element_bytes, begin}, w, columns, 24);
        }
      }
    }
  }
}

// Of windows in all plans how many have shifted rows, which are copied by units.
std::pair<int, int> shifted_of_windows(const char* text, DataType type, bool channels_last) {
  Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
  p.type = type;
  p.set_dense_strides(channels_last);
  int shifted = 0, windows = 0;
  for (const Plan& plan : implicit_gemm::make_plans(p, Direction::kFprop, h200(), true)) {
    for (const Arguments& args : plan.launches) {
      if (args.windows.count == 0) continue;
      ++windows;
      if (!args.shifts_rows) continue;
      ++shifted;
      EXPECT_EQ(args.geometry.source.w, 1) << "units bring neighbours";
      EXPECT_EQ(args.staging.granule_pixels * size_of(type), kWordBytes);
      EXPECT_EQ(args.staging.granule, kShiftedBytes);
    }
  }
  return {shifted, windows};
}

void expect_all(const char* text, DataType type) {
  const auto [shifted, windows] = shifted_of_windows(text, type, false);
  EXPECT_GT(windows, 0) << text;
  EXPECT_EQ(shifted, windows) << text;
}

void expect_none(const char* text, DataType type, bool channels_last) {
  const auto [shifted, windows] = shifted_of_windows(text, type, channels_last);
  EXPECT_GT(windows, 0) << text;
  EXPECT_EQ(shifted, 0) << text;
}

// Of rows that have only words in common. Where they have 8 bytes or more, copies of these cost
// less; where they have less, words have no whole pixels.
TEST(ImplicitGemmShiftedRows, AreWhereRowsHaveWordsInCommon) {
  expect_all("n1c32h20w30 k32r3s3 pad=1,1,1,1", DataType::kBFloat16);
  expect_all("n1c32h21w31 k32r3s3 pad=1,1,1,1", DataType::kFloat32);
  expect_none("n1c32h20w30 k32r3s3 pad=1,1,1,1", DataType::kFloat32, false);
  expect_none("n1c32h20w32 k32r3s3 pad=1,1,1,1", DataType::kBFloat16, false);
  expect_none("n1c32h20w36 k32r3s3 pad=1,1,1,1", DataType::kBFloat16, false);
  expect_none("n1c32h21w31 k32r3s3 pad=1,1,1,1", DataType::kBFloat16, false);
}

// Pixels whose channels lie side by side begin at words in float32, but are no neighbours.
TEST(ImplicitGemmShiftedRows, HavePixelsThatAreNeighbours) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const char* text : {"n1c3h20w30 k6r3s3", "n1c17h21w31 k9r3s3 pad=1,1,1,1"}) {
      expect_none(text, type, true);
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
