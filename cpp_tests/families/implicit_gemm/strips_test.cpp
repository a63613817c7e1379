// Strips: that each byte of a row has one writer and each sector one instruction of one strip,
// wherever rows begin and end, and where there are strips.
#include "conv2d/families/implicit_gemm/strips/strips.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/fragments.h"
#include "conv2d/families/implicit_gemm/plan.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::kSectorBytes;
using implicit_gemm::kVectorBytes;
using implicit_gemm::kWideColumns;
using implicit_gemm::kWordBytes;
using implicit_gemm::Plan;
using implicit_gemm::strip_pitch;
using implicit_gemm::StripLine;

// A row of results that begins so many bytes behind a sector, and what was written of it.
class WrittenRow {
 public:
  WrittenRow(int32_t begin, int32_t columns, int32_t element_bytes)
      : begin_(begin),
        columns_(columns),
        element_bytes_(element_bytes),
        writers_(begin + columns * element_bytes + 4 * kSectorBytes) {}

  // As StripSlice::write() does, by all strips.
  void write() {
    for (first_ = 0; first_ < columns_; first_ += kWideColumns) {
      const int32_t left = columns_ - first_;
      const StripLine line(begin_, first_ == 0, left, element_bytes_);
      instruct(
          implicit_gemm::wide_bytes(element_bytes_) / kVectorBytes, kVectorBytes,
          [&](int32_t lane) { return line.vector(lane); },
          [&](int32_t place) { return line.has_vector(place); });
      instruct(kSectorBytes / kWordBytes, kWordBytes, StripLine::first_word,
               [&](int32_t place) { return line.has_first_word(place); });
      instruct(
          kSectorBytes / kWordBytes, kWordBytes, [&](int32_t lane) { return line.last_word(lane); },
          [&](int32_t place) { return line.has_last_word(place); });
      if (element_bytes_ == 2 && left % 2 != 0) {
        instruct(
            1, element_bytes_, [&](int32_t) { return begin_ + (left - 1) * element_bytes_; },
            [&](int32_t place) { return line.has_last_pixel(place); });
      }
    }
  }

  void check() const {
    const int32_t end = begin_ + columns_ * element_bytes_;
    for (int32_t i = 0; i < static_cast<int32_t>(writers_.size()); ++i) {
      EXPECT_EQ(writers_[i].size(), i >= begin_ && i < end ? 1u : 0u)
          << "byte " << i << " of " << begin_ << " to " << end;
    }
    for (int32_t first = begin_ & -kSectorBytes; first < end; first += kSectorBytes) {
      std::set<int32_t> strips;
      for (int32_t i = first; i < first + kSectorBytes; ++i) {
        strips.insert(writers_[i].begin(), writers_[i].end());
      }
      EXPECT_EQ(strips.size(), 1u) << "sector " << first;
    }
  }

 private:
  void instruct(int32_t lanes, int32_t bytes, const std::function<int32_t(int32_t)>& place_of,
                const std::function<bool(int32_t)>& is_wanted) {
    const int32_t computed = begin_ + implicit_gemm::strip_columns(element_bytes_) * element_bytes_;
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const int32_t place = place_of(lane);
      if (!is_wanted(place)) continue;
      ASSERT_EQ(place % bytes, 0);
      ASSERT_GE(place, begin_);
      ASSERT_LE(place + bytes, computed);
      for (int32_t i = 0; i < bytes; ++i) {
        writers_.at(first_ * element_bytes_ + place + i).insert(first_);
      }
    }
  }

  int32_t begin_, columns_, element_bytes_, first_ = 0;
  std::vector<std::multiset<int32_t>> writers_;
};

TEST(ImplicitGemmStrips, EachSectorHasOneWriter) {
  for (const int32_t element_bytes : {2, 4}) {
    for (int32_t begin = 0; begin < kSectorBytes; begin += kWordBytes) {
      for (int32_t columns = 1; columns <= 3 * kWideColumns; ++columns) {
        WrittenRow row(begin, columns, element_bytes);
        row.write();
        row.check();
        ASSERT_FALSE(HasFailure()) << columns << " columns of " << element_bytes << " bytes";
      }
    }
  }
}

// Of eight lines that begin at sectors: pairs of 16-bit pixels; of float32 half of the lanes'.
TEST(ImplicitGemmStrips, PairsAreInAllBanks) {
  for (const int32_t bytes : {2, 4}) {
    std::set<int32_t> banks;
    for (int32_t lane = 0; lane < (bytes == 2 ? 32 : 16); ++lane) {
      const int32_t place =
          implicit_gemm::strip_channel(lane) * strip_pitch(bytes) + lane % 4 * 2 * bytes;
      for (int32_t i = 0; i < 2 * bytes; i += kWordBytes) {
        banks.insert((place + i) / kWordBytes % 32);
      }
    }
    EXPECT_EQ(banks.size(), 32u);
    EXPECT_EQ(strip_pitch(bytes) % kVectorBytes, 0);
    EXPECT_GE(strip_pitch(bytes), implicit_gemm::strip_columns(bytes) * bytes + kSectorBytes);
  }
}

// How the first plan with strips launches them, or null.
std::shared_ptr<const implicit_gemm::Arguments> strips_of(const std::string& text,
                                                          Direction direction, DataType type,
                                                          const Chip& chip) {
  Conv2dProblem p = channels_last_problem(text, type);
  p.set_dense_strides(false);
  for (const Plan& plan : implicit_gemm::make_plans(p, direction, chip, true)) {
    if (plan.strips && !plan.is_of_team) return plan.strips;
  }
  return nullptr;
}

TEST(ImplicitGemmStrips, AreWhereOneWindowHasAllChannels) {
  const Chip h200 = chip_of("NVIDIA H200");
  const auto rows = [&](const char* text, DataType type = DataType::kBFloat16,
                        Direction direction = Direction::kFprop) {
    const auto strips = strips_of(text, direction, type, h200);
    return strips ? strips->strips.rows : 0;
  };
  EXPECT_EQ(rows("n16c16h1024w1024 k128r3s3"), 24);
  EXPECT_EQ(rows("n16c16h1024w1024 k128r3s3", DataType::kFloat32), 24);
  EXPECT_EQ(rows("n1c16h64w64 k128r3s3"), 8);
  EXPECT_GT(rows("n1c32h64w64 k128r3s3"), 0);
  EXPECT_EQ(rows("n1c32h64w64 k128r3s3", DataType::kFloat32), 0);
  EXPECT_EQ(rows("n1c33h64w64 k128r3s3"), 0);
  EXPECT_EQ(rows("n1c16h64w64 k128r3s3 stride=2,2"), 0);
  EXPECT_EQ(rows("n1c16h64w65 k128r3s3"), 0);  // rows of results begin at halves of words
  EXPECT_EQ(rows("n1c16h64w65 k128r3s4"), 0);  // rows of the source do
  EXPECT_GT(rows("n1c128h64w64 k16r3s3", DataType::kFloat32, Direction::kDgrad), 0);
  EXPECT_EQ(rows("n1c128h64w64 k16r3s3 stride=2,2", DataType::kFloat32, Direction::kDgrad), 0);
}

// However few bytes a copy may bring, which the operand's address decides.
TEST(ImplicitGemmStrips, EachThreadCopiesOnePlaceOfARow) {
  const Chip h200 = chip_of("NVIDIA H200");
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const char* text : {"n1c16h64w64 k128r3s3", "n1c8h64w64 k128r3s3 dil=1,9"}) {
      const auto strips = strips_of(text, Direction::kFprop, type, h200);
      ASSERT_TRUE(strips) << text;
      for (const int32_t granule : {4, 8, 16}) {
        const implicit_gemm::Staging staging = implicit_gemm::make_strip_staging(
            strips->windows, static_cast<int32_t>(size_of(type)), granule);
        EXPECT_GE(1 << staging.log_threads, staging.granules) << text << ' ' << granule;
        EXPECT_LE(1 << staging.log_threads, implicit_gemm::kStripTile.threads()) << text;
      }
    }
    // A row is wider than threads can copy.
    EXPECT_FALSE(strips_of("n1c8h64w256 k128r3s3 dil=1,99", Direction::kFprop, type, h200));
  }
}

TEST(ImplicitGemmStrips, AreExpectedToBeFastestWhereResultsAreMost) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = channels_last_problem("n16c16h1024w1024 k128r3s3 dil=1,2", type);
    p.set_dense_strides(false);
    const std::vector<Plan> plans =
        implicit_gemm::make_plans(p, Direction::kFprop, chip_of("NVIDIA H200"), true);
    EXPECT_TRUE(plans.front().strips) << plans.front();
  }
}

}  // namespace
}  // namespace haloconv::testing
