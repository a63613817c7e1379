// Results that the copy engine writes, on the host: what a math warp stages and writes itself, and
// what boxes of it the engine takes where, makes up each line, every pixel once; bands bring every
// row of the source once.
#include "conv2d/families/halo/copied_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/families/halo/source_bands.h"
#include "conv2d/geometry/rows_innermost.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::Arguments;
using halo::LinePlaces;

// One warp's line of kPixels, whose first pixel of its first channel lies at an address, and whose
// channels are a plane apart. Values are channel * kPixels + pixel.
template <int kBytes, int kPixels>
class Line {
  using Shape = halo::LineShape<kBytes, kPixels>;

 public:
  Line(uint32_t address, int64_t plane)
      : address_(address),
        plane_(plane),
        places_{halo::place_shift(plane, kBytes)},
        staged_(halo::kCopiedChannels * Shape::kInside, -1) {}

  // As copied_results.cuh.
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
    const int32_t to_sector = halo::pixels_to_sector<kBytes>(address_of(channel));
    const int64_t row = places_.row_of(channel) * Shape::kInside - to_sector + pair;
    constexpr int kBlocks = kPixels / 8, kEndBlocks = Shape::kSector / 8;
    for (int block = 0; block < kEndBlocks; ++block) {
      const bool is_end = halo::first_is_end(block * 8 + pair, to_sector);
      const int end = block * 8 + (is_end ? 0 : Shape::kInside);
      const int inside = block * 8 + (is_end ? Shape::kInside : 0);
      for (int i = 0; i < 2; ++i) {
        const int first = channel * kPixels + block * 8 + pair + i;
        write(at(channel) + pair + end + i, is_end ? first : first + Shape::kInside);
        put(row + inside + i, is_end ? first + Shape::kInside : first);
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
    const int32_t to_sector = halo::pixels_to_sector<kBytes>(first);
    ASSERT_EQ((first + to_sector * kBytes) % halo::kSectorBytes, 0u);
    for (int i = 0; i < places_.channels_of_box(); ++i) {
      const int channel = place + i * places_.count();
      ASSERT_EQ(address_of(channel) % halo::kSectorBytes, first % halo::kSectorBytes);
      for (int pixel = 0; pixel < Shape::kInside; ++pixel) {
        write(at(place) + to_sector + (int64_t{i} << places_.shift) * plane_ + pixel,
              staged_.at((place * places_.channels_of_box() + i) * Shape::kInside + pixel));
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
      if (halo::place_shift(plane, 4) >= 0) Line<4, 208>(address, plane).run();
      if (halo::place_shift(plane, 2) >= 0) Line<2, 256>(address - 4, plane).run();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(HaloCopiedLines, PlanesBeginAtFewPlacesOfASector) {
  EXPECT_EQ(halo::place_shift(1022 * 1022, 4), 1);
  EXPECT_EQ(halo::place_shift(1022 * 1022, 2), 2);
  EXPECT_EQ(halo::place_shift(1024 * 1024, 2), 0);
  EXPECT_EQ(halo::place_shift(1023 * 1023, 4), -1);
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
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
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
  for (const halo::Plan& plan : copied_plans("n16c16h1024w1024 k128r3s3", DataType::kFloat32)) {
    EXPECT_FALSE(halo::takes_fusion(plan)) << plan;
  }
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

// Whatever the number of blocks: each brings its own pieces.
TEST(HaloCopiedLines, BandsBringEveryRowOfTheSourceOnce) {
  for (const halo::Plan& plan :
       copied_plans("n2c9h45w264 k48r3s3 pad=1,0,1,1", DataType::kFloat32)) {
    if (plan.tile.bands.lines == 0) continue;
    const Conv2dProblem p = parse_shape("a n2c9h45w264 k48r3s3 pad=1,0,1,1").problem;
    const Arguments args = halo::make_launches(p, plan).front().arguments;
    const halo::BandArguments bands{plan.tile.bands.lines, 0, false};
    const int32_t lines = args.images * args.h.tiles;
    std::map<int64_t, int> brought;
    for (int32_t band = 0; band * bands.lines < lines; ++band) {
      for (int32_t i = 0; i < bands.pieces(args); ++i) {
        const halo::SourcePiece piece = halo::source_piece(args, bands, band, i);
        if (piece.first >= 0) ++brought[piece.first];
      }
    }
    // A line's window begins two rows above its last, so that an image's first two rows of windows
    // are left to the loads.
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t c = 0; c < p.c; ++c) {
        for (int64_t h = args.h.last + args.h.origin; h < args.h.source_size; ++h) {
          const int64_t first = n * args.source_n + c * args.source_c + h * args.source_h;
          if (args.h.tiles * args.h.tile > args.h.outputs) {
            EXPECT_LE(brought[first], 1) << plan;
          } else {
            EXPECT_EQ(brought[first], 1) << plan << n << ' ' << c << ' ' << h;
          }
        }
      }
    }
    for (const auto& [first, times] : brought) {
      EXPECT_LE(times, 1) << plan;
      EXPECT_LE(first % args.source_h, 0) << plan;
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
