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

using implicit_gemm::Access;
using implicit_gemm::Arguments;
using implicit_gemm::kShiftedBytes;
using implicit_gemm::kTiles;
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

// Beside those whose copies are of the words that rows have in common.
TEST(ImplicitGemmShiftedRows, AreWhereRowsBeginAtWordsOnly) {
  const auto counts = [](const char* text, DataType type) {
    Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
    p.type = type;
    p.set_dense_strides(false);
    std::pair<int, int> found;  // with shifted rows; windows in all
    for (const Plan& plan : implicit_gemm::make_plans(p, Direction::kFprop, h200(), true)) {
      const Arguments& args = plan.launches.front();
      if (args.windows.count == 0) continue;
      ++found.second;
      if (!args.shifts_rows) continue;
      ++found.first;
      EXPECT_EQ(args.staging.granule_pixels * size_of(type), kWordBytes);
      EXPECT_EQ(args.staging.granule, kShiftedBytes);
    }
    return found;
  };
  const auto half = [](std::pair<int, int> found) {
    return found.first > 0 && found.second == 2 * found.first;
  };
  EXPECT_TRUE(half(counts("n1c32h20w30 k32r3s3 pad=1,1,1,1", DataType::kBFloat16)));
  EXPECT_TRUE(half(counts("n1c32h20w30 k32r3s3 pad=1,1,1,1", DataType::kFloat32)));
  EXPECT_EQ(counts("n1c32h20w32 k32r3s3 pad=1,1,1,1", DataType::kBFloat16).first, 0);
  EXPECT_EQ(counts("n1c32h21w31 k32r3s3 pad=1,1,1,1", DataType::kBFloat16).first, 0);
  EXPECT_TRUE(half(counts("n1c32h21w31 k32r3s3 pad=1,1,1,1", DataType::kFloat32)));
}

}  // namespace
}  // namespace haloconv::testing
