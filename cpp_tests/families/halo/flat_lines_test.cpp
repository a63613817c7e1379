// Tiles that run on from row to row, on the host: what math warps stage and write themselves, and
// what boxes of it the copy engine takes where, makes up all of a plane, once or twice the same.
#include "conv2d/families/halo/flat_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/halo/lowered.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/integers.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

// One warp's channels, whose planes of rows without gaps begin at an address. Tiles are staged and
// copied as flat_lines.cuh does it. A pixel's value is its place in the first channel's plane, plus
// the channel times kChannel.
template <int kElementBytes>
class Planes {
  using Shape = halo::FlatShape<kElementBytes>;
  static constexpr int kRow = Shape::kStagedBytes / kElementBytes;
  static constexpr int kLead = halo::kBoxAlignment / kElementBytes;  // before the first channel
  static constexpr int kChannel = 1 << 24;

 public:
  Planes(uint32_t address, int64_t plane, int rows, int width)
      : address_(address),
        plane_(plane),
        rows_(rows),
        width_(width),
        places_{Shape::place_shift(plane)},
        staged_(kLead + halo::kCopiedChannels * kRow, -1),
        written_(halo::kCopiedChannels * plane, -1) {}

  void run() {
    ASSERT_GE(places_.shift, 0);
    const int pitch = width_ + halo::kFlatGap;
    const int last = (rows_ - 1) * pitch + width_ - Shape::kPixels;
    for (int position = 0; position < last + Shape::kPixels; position += Shape::kColumns) {
      tile(std::min(position, last), pitch, last);
    }
  }

  void check() const {
    for (int channel = 0; channel < halo::kCopiedChannels; ++channel) {
      for (int pixel = 0; pixel < plane_; ++pixel) {
        const int expected = pixel < rows_ * width_ ? channel * kChannel + pixel : -1;
        ASSERT_EQ(written_.at(channel * plane_ + pixel), expected) << channel << ' ' << pixel;
      }
    }
  }

 private:
  int before_sector(int channel, int pixel) const {
    const int64_t at = address_ + (channel * plane_ + pixel) * kElementBytes;
    return Shape::before_sector(static_cast<uint32_t>(at));
  }

  void tile(int position, int pitch, int last) {
    const halo::FlatPixels pixels = halo::flat_pixels(position, position / pitch, width_);
    std::fill(staged_.begin(), staged_.end(), -1);  // the engine has read all that was there
    for (int channel = 0; channel < halo::kCopiedChannels; ++channel) {
      const int before = before_sector(channel, pixels.first);
      for (int i = 0; i < Shape::kPixels; ++i) {
        const int row = (position + i) / pitch, column = (position + i) % pitch;
        const bool is_output = column < width_ && row < rows_;
        ASSERT_EQ(is_output, i / 2 * 2 != pixels.before_gap) << position << ' ' << i;
        if (!is_output) continue;
        const int pixel = pixels.first + pixels.distance(i);
        ASSERT_EQ(pixel, row * width_ + column);
        const int value = channel * kChannel + pixel;
        int& staged =
            staged_.at(kLead + places_.row_of(channel) * kRow - before + pixels.distance(i));
        ASSERT_EQ(staged, -1) << "staged twice";
        staged = value;
        const bool is_head = position == 0 && i - before < 0;
        const bool is_tail = position == last && i - before >= Shape::kColumns;
        if (is_head || is_tail) write(channel * plane_ + pixel, value);
      }
    }
    for (int place = 0; place < places_.count(); ++place) copy(place, pixels.first);
  }

  // A box, where copied_launch.cpp's map has it. It ends after what is written.
  void copy(int place, int first) {
    const int64_t address = address_ + place * plane_ * kElementBytes;
    const int before = static_cast<int>(address % halo::kSectorBytes) / kElementBytes;
    const int begins = first + before + before_sector(place, first);
    ASSERT_EQ(begins % Shape::kSector, 0);
    for (int i = 0; i < places_.channels_of_box(); ++i) {
      const int64_t map = (place + (int64_t{i} << places_.shift)) * plane_ - before;
      for (int pixel = 0; pixel < Shape::kColumns; ++pixel) {
        write(map + begins + pixel,
              staged_.at(kLead + (place * places_.channels_of_box() + i) * kRow + pixel));
      }
    }
  }

  // Neighbouring tiles write some pixels both, the same values.
  void write(int64_t to, int value) {
    ASSERT_TRUE(written_.at(to) == -1 || written_.at(to) == value) << to << ' ' << value;
    written_.at(to) = value;
  }

  const uint32_t address_;
  const int64_t plane_;
  const int rows_, width_;
  const halo::LinePlaces places_;
  // Staged rows; the first channel's plane and those after it.
  std::vector<int> staged_, written_;
};

template <int kElementBytes>
void check_planes() {
  constexpr int kRows = 3;
  constexpr int kPairBytes = 2 * kElementBytes;
  for (const int width : {256, 258, 262, 300, 510, 1022}) {
    for (const int more : {0, 4, 8, 12}) {
      const int64_t plane = (kRows * width + 3) / 4 * 4 + more;
      for (uint32_t address = 4096; address < 4096 + 32; address += kPairBytes) {
        Planes<kElementBytes> planes(address, plane, kRows, width);
        planes.run();
        if (::testing::Test::HasFatalFailure()) return;
        planes.check();
        if (::testing::Test::HasFatalFailure()) {
          FAIL() << "width " << width << " plane " << plane << " address " << address;
        }
      }
    }
  }
}

TEST(HaloFlatLines, EveryPixelIsWritten) {
  check_planes<2>();
  check_planes<4>();
}

// How many lanes meet a bank of shared memory, at most, when a warp stages a pair of pixels of each
// lane: the lanes of 32 words at a time.
template <int kElementBytes>
int lanes_of_bank(uint32_t address, int64_t plane) {
  using Shape = halo::FlatShape<kElementBytes>;
  constexpr int kPairWords = 2 * kElementBytes / 4, kLanes = 32 / kPairWords;
  const halo::LinePlaces places{Shape::place_shift(plane)};
  const halo::RowOrder order = Shape::row_order(places);
  int most = 0;
  for (int half = 0; half < 2; ++half) {
    for (int first = 0; first < 32; first += kLanes) {
      std::vector<int> met(32);
      for (int lane = first; lane < first + kLanes; ++lane) {
        const int channel = order.channel(lane, half);
        const int64_t at = address + channel * plane * kElementBytes;
        const int bytes =
            places.row_of(channel) * Shape::kStagedBytes +
            (lane % 4 * 2 - Shape::before_sector(static_cast<uint32_t>(at))) * kElementBytes;
        for (int word = 0; word < kPairWords; ++word) ++met[(bytes / 4 + word + 32) % 32];
      }
      most = std::max(most, *std::max_element(met.begin(), met.end()));
    }
  }
  return most;
}

TEST(HaloFlatLines, StagingMeetsBanksOnce) {
  for (uint32_t address = 4096; address < 4096 + 32; address += 4) {
    for (const int plane : {1032, 1036, 1044484}) {
      EXPECT_EQ(lanes_of_bank<4>(address, plane), 1) << address << ' ' << plane;
      EXPECT_EQ(lanes_of_bank<2>(address, plane), 1) << address << ' ' << plane;
    }
    EXPECT_EQ(lanes_of_bank<4>(address, 1040), 1) << address;
    EXPECT_EQ(lanes_of_bank<2>(address, 1040), 2) << "all planes begin at one place of a sector";
  }
}

TEST(HaloFlatLines, EveryChannelIsOneRow) {
  for (const halo::RowOrder order : {halo::RowOrder{}, halo::kInterleavedRows}) {
    std::vector<int> rows(halo::kCopiedChannels);
    for (int lane = 0; lane < 32; lane += 4) {
      for (int half = 0; half < 2; ++half) ++rows.at(order.channel(lane, half));
    }
    EXPECT_EQ(rows, std::vector<int>(halo::kCopiedChannels, 1));
  }
}

// Plans that write so, of a shape and type.
std::vector<halo::Plan> flat_plans(const char* text, DataType type) {
  Conv2dProblem p = parse_shape(std::string("a ") + text).problem;
  p.type = type;
  std::vector<halo::Plan> plans = halo::make_plans(p, Direction::kFprop, h200());
  std::erase_if(plans, [](const halo::Plan& plan) { return !halo::is_flat(plan.tile); });
  return plans;
}

TEST(HaloFlatLines, AreOfRowsThatFollowEachOther) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    const auto has = [&](const char* text) { return !flat_plans(text, type).empty(); };
    EXPECT_TRUE(has("n16c16h1024w1024 k128r3s3"));
    EXPECT_TRUE(has("n16c16h1024w1024 k128r3s3 dil=2,1"));
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s3 dil=1,2")) << "a wider gap";
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s3 pad=0,0,1,1")) << "windows beyond a row";
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s3 pad=1,0,0,0")) << "windows before the source";
    EXPECT_FALSE(has("n16c32h1024w1024 k128r3s3")) << "more weights than registers";
    EXPECT_FALSE(has("n16c16h1024w1024 k256r3s3")) << "several tiles of channels";
    EXPECT_FALSE(has("n16c16h1024w1024 k120r3s3")) << "part of a warp's channels";
    EXPECT_FALSE(has("n16c16h1024w200 k128r3s3")) << "rows shorter than a tile";
    EXPECT_FALSE(has("n16c16h1024w1025 k128r3s3")) << "rows of odd length";
    EXPECT_FALSE(has("n16c16h1024w1024 k128r3s2")) << "not 3x3";
  }
  EXPECT_FALSE(flat_plans("n16c8h1024w1024 k128r3s3", DataType::kBFloat16).empty());
  EXPECT_TRUE(flat_plans("n16c8h1024w1024 k128r3s3", DataType::kFloat32).empty())
      << "one chunk of channels";
}

// The whole plane is one row, above which lie the taps' others.
TEST(HaloFlatLines, WindowsAreOfOneLongRow) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    const auto plans = flat_plans("n2c16h34w514 k128r3s3", type);
    ASSERT_EQ(plans.size(), 1u);
    const Conv2dProblem p = parse_shape("a n2c16h34w514 k128r3s3").problem;
    Conv2dProblem typed = p;
    typed.type = type;
    const auto launches = halo::make_launches(typed, plans.front());
    ASSERT_EQ(launches.size(), 1u);
    const halo::Arguments& a = launches.front().arguments;
    const int columns = plans.front().tile.columns;
    EXPECT_EQ(a.h.outputs, 1);
    EXPECT_EQ(a.h.source_size, 3);
    EXPECT_EQ(a.w.outputs, 31 * 514 + 512);
    EXPECT_EQ(a.w.source_size, 32 * 514);
    EXPECT_EQ(a.w.tile, columns);
    EXPECT_EQ(a.w.tiles, ceil_div_32(a.w.outputs, columns));
    EXPECT_EQ(a.tiles, 2u * a.w.tiles);
    EXPECT_EQ(a.pitch, columns + (type == DataType::kFloat32 ? 8 : 16) + 2);
    EXPECT_EQ(a.window_cells, 3 * a.pitch);
    // All that outputs meet is in the source.
    EXPECT_EQ(a.w.outputs - 1 + 2, a.w.source_size - 1);
  }
}

}  // namespace
}  // namespace haloconv::testing
