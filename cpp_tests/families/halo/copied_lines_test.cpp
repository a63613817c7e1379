// Results that the copy engine writes, on the host: what a math warp stages, keeps for its next
// line and writes itself, and what boxes of it the engine takes where, makes up all rows; pieces of
// several rows are staged as the engine's swizzle has them.
#include "conv2d/families/halo/copied_lines.h"
#include "conv2d/families/halo/flat_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using halo::LinePlaces;

// One warp's channels, whose planes of rows without gaps begin at an address. A run of lines is
// staged and copied as copied_lines.cuh does it. A pixel's value is its place in the first
// channel's plane, plus the channel times kChannel.
class Planes {
  static constexpr int kBytes = 2, kPixels = halo::kLinePixels, kSector = halo::kSectorPixels;
  static constexpr int kRow = halo::kStagedLineBytes / kBytes;
  static constexpr int kChannel = 1 << 24;

 public:
  Planes(uint32_t address, int64_t plane, int width)
      : address_(address),
        plane_(plane),
        width_(width),
        places_{halo::place_shift(plane)},
        staged_(halo::kCopiedChannels * kRow, -1),
        carries_(halo::kCopiedChannels * kSector, -1),
        written_(halo::kCopiedChannels * plane, -1) {}

  // All lines of some rows, which one block goes along. `rows_follow`: it carries from row to row.
  void run(int first_row, int rows, bool rows_follow) {
    ASSERT_GE(places_.shift, 0);
    const int tiles = (width_ + kPixels - 1) / kPixels;
    bool is_continued = false;
    for (int row = first_row; row < first_row + rows; ++row) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int column = std::min(tile * kPixels, width_ - kPixels);
        const bool ends_row = tile == tiles - 1;
        const bool continues = !ends_row || (rows_follow && row < first_row + rows - 1);
        line(row * width_ + column, is_continued, continues, tile * kPixels - column);
        is_continued = continues;
      }
    }
  }

  // That rows before this one are written, and nothing else; and how many pixels math warps wrote.
  void check(int rows, int written_by_warps) const {
    for (int channel = 0; channel < halo::kCopiedChannels; ++channel) {
      for (int pixel = 0; pixel < plane_; ++pixel) {
        const int expected = pixel < rows * width_ ? channel * kChannel + pixel : -1;
        ASSERT_EQ(written_.at(channel * plane_ + pixel), expected) << channel << ' ' << pixel;
      }
    }
    ASSERT_LE(written_by_warps_, written_by_warps);
  }

 private:
  int32_t in_sector(int channel, int pixel) const {
    const int64_t at = address_ + (channel * plane_ + pixel) * kBytes;
    return halo::pixel_in_sector(static_cast<uint32_t>(at));
  }

  void line(int pixel, bool is_continued, bool continues, int overlap) {
    std::fill(staged_.begin(), staged_.end(), -1);  // the engine has read all that was there
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        stage(half * 8 + lane / 4, lane % 4 * 2, pixel, is_continued, continues, overlap);
      }
    }
    for (int place = 0; place < places_.count(); ++place) {
      copy(place, pixel, is_continued, overlap);
    }
  }

  void stage(int channel, int pair, int line, bool is_continued, bool continues, int overlap) {
    const int32_t before = in_sector(channel, line);
    const halo::StagedLine staged = halo::stage_line(before, is_continued, overlap);
    const int row = places_.row_of(channel) * kRow;
    for (int i = pair; i < kPixels; i += i % 8 == pair ? 1 : 7) {
      const int value = channel * kChannel + line + i;
      if (i < kSector && is_continued) {
        const int to = halo::staged_of_carry(i, before, overlap);
        if (staged.first >= 0 && to >= 0 && to < before) {
          put(row + to, carries_.at(channel * kSector + i));
        }
      }
      const bool is_staged = staged.first + i >= 0;
      if (is_staged) put(row + staged.first + i, value);
      if (!is_staged && !is_continued) write_by_warp(channel * plane_ + line + i, value);
    }
    for (int i = 0; i < kSector; ++i) {
      const int last = line + kPixels - kSector + i, value = channel * kChannel + last;
      if (i % 8 / 2 * 2 != pair) continue;
      if (continues) {
        carries_.at(channel * kSector + i) = value;
      } else if (i >= halo::first_of_carry(before)) {
        write_by_warp(channel * plane_ + last, value);
      }
    }
  }

  // A box, where copied_launch.cpp's map has it, whose lines begin at all sectors and overlap.
  void copy(int place, int line, bool is_continued, int overlap) {
    const halo::StagedLine staged = halo::stage_line(in_sector(place, line), is_continued, overlap);
    const int before = in_sector(place, 0), missing = halo::kLineSectors - staged.sectors;
    ASSERT_EQ((line + before - staged.first) % kSector, 0);
    const int sector = (line + before - staged.first) / kSector - missing;
    ASSERT_GE(sector, 0);
    for (int i = 0; i < places_.channels_of_box(); ++i) {
      const int64_t map = (place + (int64_t{i} << places_.shift)) * plane_ - before;
      for (int pixel = 0; pixel < kRow; ++pixel) {
        const int of_line = missing * kSector + pixel;
        if (of_line >= kPixels) break;
        write(map + sector * kSector + of_line,
              staged_.at((place * places_.channels_of_box() + i) * kRow + pixel));
      }
    }
  }

  void put(int64_t to, int value) {
    ASSERT_EQ(staged_.at(to), -1) << "staged twice";
    staged_.at(to) = value;
  }
  // Overlapping tiles write some pixels twice, the same values.
  void write(int64_t to, int value) {
    ASSERT_TRUE(written_.at(to) == -1 || written_.at(to) == value) << to;
    written_.at(to) = value;
  }
  void write_by_warp(int64_t to, int value) {
    ++written_by_warps_;
    write(to, value);
  }

  const uint32_t address_;
  const int64_t plane_;
  const int width_;
  const LinePlaces places_;
  // Staged rows; the pixels of each channel's carry; the first channel's plane and those after it.
  std::vector<int> staged_, carries_, written_;
  int written_by_warps_ = 0;
};

TEST(HaloCopiedLines, EveryPixelIsWrittenAndFewByWarps) {
  constexpr int kRows = 3, kFirstRun = 2;
  // A run's head and what its last line carries, of each channel.
  constexpr int kOfRun = 2 * (halo::kSectorPixels - 2) * halo::kCopiedChannels;
  for (const int width : {256, 258, 262, 300, 510, 512, 526, 1022}) {
    for (const int more : {0, 4, 8, 12}) {
      const int64_t plane = (kRows * width + 3) / 4 * 4 + 16 + more;
      for (uint32_t address = 4096; address < 4096 + 32; address += 4) {
        for (const bool rows_follow : {true, false}) {
          Planes planes(address, plane, width);
          planes.run(0, kFirstRun, rows_follow);
          planes.run(kFirstRun, kRows - kFirstRun, rows_follow);
          if (HasFatalFailure()) return;
          planes.check(kRows, (rows_follow ? 2 : kRows) * kOfRun);
          if (HasFatalFailure()) {
            FAIL() << "width " << width << " plane " << plane << " address " << address;
          }
        }
      }
    }
  }
}

// A block that finds no tile would wait for ever.
TEST(HaloCopiedLines, EveryBlockHasARunOfWholeRows) {
  constexpr uint32_t kBlocks = 132;
  halo::Arguments args{};
  for (const uint32_t row_tiles : {1, 4}) {
    args.w.tiles = static_cast<int32_t>(row_tiles);
    for (uint32_t rows = 1; rows < 4 * kBlocks * halo::kLeastRunsOfBlock; ++rows) {
      args.tiles = rows * row_tiles;
      const uint32_t blocks = std::min(kBlocks, halo::rows_of(args));
      const uint32_t run = halo::tiles_of_run(args, blocks);
      ASSERT_EQ(run % row_tiles, 0u);
      ASSERT_LT((blocks - 1) * run, args.tiles) << rows;
    }
  }
  args.tiles = 16 * 1022 * 4;
  EXPECT_EQ(halo::tiles_of_run(args, kBlocks), halo::kMostRowsOfRun * 4);
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
  std::erase_if(plans, [](const halo::Plan& plan) {
    return !halo::copies_lines(plan.tile) || halo::is_flat(plan.tile);
  });
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
