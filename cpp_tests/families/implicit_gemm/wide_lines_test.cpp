// Lines of results in shared memory and in memory: that each byte has one writer, and each sector
// one instruction, wherever a line begins and ends.
#include "conv2d/families/implicit_gemm/staged/wide_lines.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace haloconv::testing {
namespace {

using implicit_gemm::kLineChannels;
using implicit_gemm::kSectorBytes;
using implicit_gemm::kVectorBytes;
using implicit_gemm::kWideColumns;
using implicit_gemm::kWordBytes;
using implicit_gemm::wide_bytes;
using implicit_gemm::wide_pitch;
using implicit_gemm::WideLine;

// A line in shared memory, and what was written of it.
class Written {
 public:
  Written(const WideLine& line, int32_t element_bytes)
      : line_(line), element_bytes_(element_bytes), writers_(wide_pitch(element_bytes)) {}

  // As WideSlice::write() does.
  void write() {
    instruct(
        wide_bytes(element_bytes_) / kVectorBytes, kVectorBytes,
        [&](int32_t lane) { return line_.vector(lane); },
        [&](int32_t place) { return line_.has_vector(place); });
    constexpr int32_t kWords = kSectorBytes / kWordBytes;
    if (line_.end - line_.begin == wide_bytes(element_bytes_)) {
      instruct(
          kWords, kWordBytes, [&](int32_t lane) { return line_.edge_word(lane, element_bytes_); },
          [&](int32_t) { return line_.begin > 0; });
      return;
    }
    instruct(kWords, kWordBytes, WideLine::first_word,
             [&](int32_t place) { return line_.has_first_word(place); });
    instruct(
        kWords, kWordBytes, [&](int32_t lane) { return line_.last_word(lane); },
        [&](int32_t place) { return line_.has_last_word(place); });
  }

  void check() const {
    for (int32_t i = 0; i < wide_pitch(element_bytes_); ++i) {
      EXPECT_EQ(writers_[i].size(), i >= line_.begin && i < line_.end ? 1u : 0u)
          << "byte " << i << " of " << line_.begin << " to " << line_.end;
    }
    for (int32_t first = 0; first < wide_pitch(element_bytes_); first += kSectorBytes) {
      std::set<int32_t> instructions;
      const int32_t end = std::min(first + kSectorBytes, wide_pitch(element_bytes_));
      for (int32_t i = first; i < end; ++i) {
        instructions.insert(writers_[i].begin(), writers_[i].end());
      }
      EXPECT_LE(instructions.size(), 1u) << "sector " << first;
    }
  }

 private:
  void instruct(int32_t lanes, int32_t bytes, const std::function<int32_t(int32_t)>& place_of,
                const std::function<bool(int32_t)>& is_wanted) {
    ++instruction_;
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const int32_t place = place_of(lane);
      ASSERT_EQ(place % bytes, 0);
      ASSERT_GE(place, 0);
      ASSERT_LE(place + bytes, wide_pitch(element_bytes_));  // also what is only read
      if (!is_wanted(place)) continue;
      for (int32_t i = 0; i < bytes; ++i) writers_[place + i].insert(instruction_);
    }
  }

  WideLine line_;
  int32_t element_bytes_, instruction_ = 0;
  std::vector<std::multiset<int32_t>> writers_;
};

TEST(ImplicitGemmWideLines, EachByteHasOneWriter) {
  for (const int32_t element_bytes : {2, 4}) {
    for (int32_t begin = 0; begin < kSectorBytes; begin += kWordBytes) {
      for (int32_t columns = 0; columns <= kWideColumns; ++columns) {
        // Half a word at the end is another's.
        const WideLine line{begin, begin + (columns * element_bytes & -kWordBytes)};
        Written written(line, element_bytes);
        written.write();
        written.check();
      }
    }
  }
}

// Of lines that begin at sectors: 8 pixels of each quad's other channel, which of 16-bit types are
// 4 words.
TEST(ImplicitGemmWideLines, SumsAreInAllBanks) {
  for (const int32_t bytes : {2, 4}) {
    std::set<int32_t> banks;
    for (int32_t lane = 0; lane < 32; ++lane) {
      const int32_t channel = lane % 4 * 2, pixel = lane / 4;
      banks.insert((channel * wide_pitch(bytes) + pixel * bytes) / kWordBytes % 32);
    }
    EXPECT_EQ(banks.size(), bytes == 4 ? 32u : 16u);
    EXPECT_EQ(wide_pitch(bytes) % kVectorBytes, 0);
  }
}

}  // namespace
}  // namespace haloconv::testing
