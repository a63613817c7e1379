// Results that the copy engine writes, on the host: what a math warp stages and writes itself, and
// what boxes of it the engine takes where, makes up each line, every pixel once; pieces of several
// rows are staged as the engine's swizzle has them.
#include "conv2d/families/halo/copied_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/rows_innermost.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::LinePlaces;

// One warp's line, whose first pixel of its first channel lies at an address, and whose channels
// are a plane apart. Values are channel * kPixels + pixel.
class Line {
  static constexpr int kBytes = 2, kPixels = halo::kLinePixels, kInside = halo::kInsidePixels;

 public:
  Line(uint32_t address, int64_t plane)
      : address_(address),
        plane_(plane),
        places_{halo::place_shift(plane)},
        staged_(halo::kCopiedChannels * kInside, -1) {}

  // As copied_lines.cuh.
  void run() {
    ASSERT_GE(places_.shift, 0);
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) stage(half * 8 + lane / 4, lane % 4 * 2);
    }
    for (int place = 0; place < places_.count(); ++place) copy(place);
    for (int channel = 0; channel < halo::kCopiedChannels; ++channel) {
      for (int pixel = 0; pixel < kPixels; ++pixel) {
        ASSERT_EQ(written_.count(at(channel) + pixel), 1u) << channel << ' ' << pixel;
        ASSERT_EQ(written_.at(at(channel) + pixel), channel * kPixels + pixel);
      }
    }
    ASSERT_EQ(written_.size(), size_t(halo::kCopiedChannels * kPixels));
  }

 private:
  // Elements from address 0, or nearly, to a channel's first pixel.
  int64_t at(int channel) const { return address_ / kBytes + channel * plane_; }
  uint32_t address_of(int channel) const {
    return static_cast<uint32_t>(address_ + channel * plane_ * kBytes);
  }

  void stage(int channel, int pair) {
    const int32_t to_sector = halo::pixels_to_sector(address_of(channel));
    const int64_t row = places_.row_of(channel) * kInside - to_sector + pair;
    constexpr int kBlocks = kPixels / 8, kEndBlocks = halo::kSectorPixels / 8;
    for (int block = 0; block < kEndBlocks; ++block) {
      const bool is_end = halo::first_is_end(block * 8 + pair, to_sector);
      const int end = block * 8 + (is_end ? 0 : kInside);
      const int inside = block * 8 + (is_end ? kInside : 0);
      for (int i = 0; i < 2; ++i) {
        const int first = channel * kPixels + block * 8 + pair + i;
        write(at(channel) + pair + end + i, is_end ? first : first + kInside);
        put(row + inside + i, is_end ? first + kInside : first);
      }
    }
    for (int block = kEndBlocks; block < kBlocks - kEndBlocks; ++block) {
      for (int i = 0; i < 2; ++i) {
        put(row + block * 8 + i, channel * kPixels + block * 8 + pair + i);
      }
    }
  }

  // A box, where copied_launch.cpp's map has it.
  void copy(int place) {
    const uint32_t first = address_of(place);
    const int32_t to_sector = halo::pixels_to_sector(first);
    ASSERT_EQ((first + to_sector * kBytes) % halo::kSectorBytes, 0u);
    for (int i = 0; i < places_.channels_of_box(); ++i) {
      const int channel = place + i * places_.count();
      ASSERT_EQ(address_of(channel) % halo::kSectorBytes, first % halo::kSectorBytes);
      for (int pixel = 0; pixel < kInside; ++pixel) {
        write(at(place) + to_sector + (int64_t{i} << places_.shift) * plane_ + pixel,
              staged_.at((place * places_.channels_of_box() + i) * kInside + pixel));
      }
    }
  }

  void put(int64_t to, int value) {
    ASSERT_EQ(staged_.at(to), -1) << "staged twice";
    staged_.at(to) = value;
  }
  void write(int64_t to, int value) {
    ASSERT_TRUE(written_.emplace(to, value).second) << "written twice";
  }

  const uint32_t address_;
  const int64_t plane_;
  const LinePlaces places_;
  std::vector<int> staged_;
  std::map<int64_t, int> written_;
};

TEST(HaloCopiedLines, EveryPixelIsWrittenOnce) {
  for (const int64_t plane : {5000, 5002, 5004, 5006, 1044484}) {
    for (uint32_t address = 4096; address < 4096 + 64; address += 8) {
      if (halo::place_shift(plane) >= 0) Line(address - 4, plane).run();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(HaloCopiedLines, PlanesBeginAtFewPlacesOfASector) {
  EXPECT_EQ(halo::place_shift(1022 * 1022), 2);
  EXPECT_EQ(halo::place_shift(1022 * 1024), 0);
  EXPECT_EQ(halo::place_shift(1023 * 1023), -1);
  const LinePlaces places{2};
  std::vector<int> rows;
  for (int channel = 0; channel < halo::kCopiedChannels; ++channel)
    rows.push_back(places.row_of(channel));
  std::sort(rows.begin(), rows.end());
  for (int row = 0; row < halo::kCopiedChannels; ++row) EXPECT_EQ(rows[row], row);
}

// Plans that copy lines, of a shape and type.
std::vector<halo::Plan> copied_plans(const char* text, DataType type) {
  Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
  p.type = type;
  std::vector<halo::Plan> plans = halo::make_plans(p, Direction::kFprop, h200());
  std::erase_if(plans, [](const halo::Plan& plan) { return !halo::copies_lines(plan.tile); });
  return plans;
}

TEST(HaloCopiedLines, AreOfWideRowsAndFewChannels) {
  const auto has = [](const char* text, DataType type) {
    return !copied_plans(text, type).empty();
  };
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    EXPECT_TRUE(has("n16c16h1024w1024 k128r3s3", type));
    EXPECT_FALSE(has("n16c32h1024w1024 k128r3s3", type)) << "more weights than registers";
    EXPECT_FALSE(has("n16c16h1024w1024 k256r3s3", type)) << "several tiles of channels";
    EXPECT_FALSE(has("n16c16h1024w1024 k120r3s3", type)) << "part of a warp's channels";
    EXPECT_FALSE(has("n16c16h1024w200 k128r3s3", type)) << "rows shorter than a tile";
    EXPECT_FALSE(has("n16c16h1024w1025 k128r3s3", type)) << "rows of odd length";
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s2", type)) << "not 3x3";
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s3 stride=1,2", type)) << "a stride";
    EXPECT_TRUE(has("n16c16h1024w1024 k128r3s3 dil=2,3 pad=2,2,4,4", type));
  }
  EXPECT_FALSE(has("n16c8h1024w1024 k128r3s3", DataType::kFloat32)) << "no 16-bit type";
}

// Where the engine also writes pieces of several rows: their strides are those of a tensor map.
TEST(HaloCopiedRows, AreOfRowsThatBeginAtWhole16Bytes) {
  const auto has = [](const char* text, DataType type) {
    Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
    p.type = type;
    const auto plans = halo::make_plans(p, Direction::kFprop, h200());
    return std::any_of(plans.begin(), plans.end(), [](const halo::Plan& plan) {
      return plan.tile.copied && !halo::copies_lines(plan.tile);
    });
  };
  EXPECT_TRUE(has("n8c32h512w512 k64r5s9", DataType::kBFloat16));
  EXPECT_TRUE(has("n8c32h512w512 k64r5s9", DataType::kFloat32));
  EXPECT_FALSE(has("n8c64h512w256 k128r5s7", DataType::kBFloat16)) << "rows of 500 bytes";
  EXPECT_FALSE(has("n8c64h512w512 k128r5s9 groups=2", DataType::kBFloat16)) << "groups";
}

// Patches are copied too. Math warps write what the engine cannot, and what a fusion computes.
TEST(HaloCopiedRows, AreKeptWithWhatOtherLaunchesNeed) {
  for (const char* text : {"n8c32h512w512 k64r5s9", "n4c64h256w256 k64r3s3 pad=1,1,1,1"}) {
    const Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
    const auto plans = halo::best_plans(p, Direction::kFprop, h200(), true, 8);
    bool has_patches = false;
    for (const halo::Plan& plan : plans) {
      EXPECT_EQ(plan.lowered_without_engine != nullptr, plan.tile.copied) << plan;
      EXPECT_TRUE(halo::takes_fusion(plan)) << plan;
      has_patches = has_patches || (plan.tile.copied && plan.tile.patches);
    }
    EXPECT_TRUE(has_patches) << text;
  }
}

// As copied_rows.cuh stages: a store's words are in 32 banks, where a store of pairs of float32
// takes half a warp at a time.
TEST(HaloCopiedRows, StagingMeetsNoBankTwice) {
  for (const int bytes : {2, 4}) {
    const int channel_words = 56 * bytes / 4, words_of_lane = bytes / 2;
    for (int first = 0; first < 32; first += 32 / words_of_lane) {
      std::vector<int> banks;
      for (int lane = first; lane < first + 32 / words_of_lane; ++lane) {
        for (int word = 0; word < words_of_lane; ++word) {
          banks.push_back((lane / 4 * channel_words + lane % 4 * words_of_lane + word) % 32);
        }
      }
      std::sort(banks.begin(), banks.end());
      EXPECT_EQ(std::unique(banks.begin(), banks.end()) - banks.begin(), 32) << bytes;
    }
  }
}

// The place of a byte of a box whose inner pieces have 16 to 128 bytes, as the engine's swizzles
// have it: of 32 bytes they exchange units of 16 by the number of the 128 bytes, and so on.
int swizzled(int at, int piece_bytes) { return at ^ (at >> 7 & (piece_bytes / 16 - 1)) << 4; }

// The same of patches, an instruction's pixels being 8 columns: every byte is staged once, where
// the engine seeks it, and of 16-bit types no bank is met twice.
TEST(HaloCopiedRows, PatchesAreStagedAsTheEngineSwizzles) {
  constexpr int kInstructions = 4;
  for (const int width : {56, 64}) {
    for (const int bytes : {2, 4}) {
      for (const int across : {1, 2, 4}) {
        const int channel_bytes = across * 8 * bytes,
                  row_bytes = halo::kCopiedChannels * channel_bytes;
        std::vector<int> staged(halo::kCopiedChannels * kInstructions * width * bytes, -1);
        for (int i = 0; i < kInstructions; ++i) {
          for (int j = 0; j < width / 8; ++j) {
            for (int half = 0; half < 2; ++half) {
              std::vector<int> banks;
              for (int lane = 0; lane < 32; ++lane) {
                const int units = channel_bytes / 16, swizzle = lane / 4 * units / 8 & (units - 1);
                const int column = i & (across - 1), row = (i - column) >> (across / 2);
                const int in_channel = column * 8 * bytes + lane % 4 * 2 * bytes;
                const int at = (row * (width / 8) + j) * row_bytes +
                               (half * 8 + lane / 4) * channel_bytes + (in_channel ^ swizzle * 16);
                const int channel = half * 8 + lane / 4, pixel = column * 8 + lane % 4 * 2;
                const int place =
                    ((row * (width / 8) + j) * halo::kCopiedChannels + channel) * channel_bytes +
                    pixel * bytes;
                ASSERT_EQ(at, swizzled(place, channel_bytes)) << width << ' ' << across;
                for (int k = 0; k < 2 * bytes; ++k) {
                  ASSERT_EQ(staged.at(at + k), -1) << "staged twice";
                  staged.at(at + k) = 1;
                }
                banks.push_back(at / 4 % 32);
              }
              std::sort(banks.begin(), banks.end());
              if (bytes == 2) {
                ASSERT_EQ(std::unique(banks.begin(), banks.end()) - banks.begin(), 32) << across;
              }
            }
          }
        }
        EXPECT_EQ(std::count(staged.begin(), staged.end(), -1), 0);
      }
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
