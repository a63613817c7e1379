// Windows of the source: that each tap of each pixel of a patch finds its element, that loads meet
// all banks, and where there are windows.
#include "conv2d/families/implicit_gemm/windows/windows.h"

#include <gtest/gtest.h>

#include <set>

#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/staged/staged_window.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using implicit_gemm::Access;
using implicit_gemm::Arguments;
using implicit_gemm::kPatchColumns;
using implicit_gemm::kTiles;
using implicit_gemm::Tile;
using implicit_gemm::Windows;

std::vector<Arguments> launches_of(const std::string& text, Direction direction, const Tile& tile,
                                   int log_units) {
  return implicit_gemm::make_window_arguments(channels_last_problem(text), direction, tile,
                                              Access::kUnits, log_units);
}

// A tap's place in the window is its own shift behind the window's first pixel.
TEST(ImplicitGemmWindows, TapsFindTheirPixels) {
  for (const char* text :
       {"n2c16h40w39 k24r3s3 pad=1,0,2,1", "n1c16h38w42 k16r5s3 dil=2,3 pad=4,2,0,3"}) {
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      const Tile& tile = kTiles[2];
      const std::vector<Arguments> launches = launches_of(text, direction, tile, 2);
      ASSERT_EQ(launches.size(), 1u);
      const Arguments& args = launches.front();
      const Phase& phase = args.phases[0];
      const int32_t step_h = args.geometry.axis_h.shift_step;
      const int32_t step_w = args.geometry.axis_w.shift_step;
      const int32_t pitch = args.windows.pitch.divisor;
      const int32_t before_h = implicit_gemm::taps_before(phase.h.taps, step_h);
      const int32_t before_w = implicit_gemm::taps_before(phase.w.taps, step_w);
      for (int32_t y = 0; y < phase.h.taps; ++y) {
        for (int32_t x = 0; x < phase.w.taps; ++x) {
          const int32_t first_h = before_h + y * step_h, first_w = before_w + x * step_w;
          EXPECT_GE(first_h, 0);
          EXPECT_GE(first_w, 0);
          EXPECT_LE(first_w + kPatchColumns, pitch);
          const int64_t last_pixel =
              int64_t{first_h + args.windows.patch_rows(tile.pixels) - 1} * pitch + first_w + 15;
          EXPECT_LT(last_pixel * 4 * implicit_gemm::kUnitBytes, args.windows.bytes);
        }
      }
    }
  }
}

TEST(ImplicitGemmWindows, BlocksBeyond32BitsAreNone) {
  const std::string images = "n1048576c8h3w3 ";
  for (const Access access : {Access::kUnits, Access::kElements}) {
    const auto count_of = [&](const char* channels) {
      return implicit_gemm::make_window_arguments(channels_last_problem(images + channels),
                                                  Direction::kFprop, kTiles[1], access, 2)
          .size();
    };
    EXPECT_EQ(count_of("k128r3s3"), 1u);
    EXPECT_EQ(count_of("k524288r3s3"), 0u);
  }
}

// Eight neighbours' units of one number, from any pixel on; no two units are in one place.
TEST(ImplicitGemmWindows, UnitsAreInAllBanks) {
  for (const int log_units : {1, 2}) {
    Windows windows{};
    windows.log_units = log_units;
    std::set<int32_t> places;
    for (int32_t first = 0; first < 256; ++first) {
      for (int32_t unit = 0; unit < windows.units(); ++unit) {
        places.insert(windows.place(first, unit));
        std::set<int32_t> banks;
        for (int32_t pixel = first; pixel < first + 8; ++pixel) {
          banks.insert(windows.place(pixel, unit) % 128);
        }
        EXPECT_EQ(banks.size(), 8u);
      }
    }
    EXPECT_EQ(places.size(), 256u * windows.units());
    EXPECT_EQ(*places.rbegin(), (256 * windows.units() - 1) * implicit_gemm::kUnitBytes);
    // A row further, which is a multiple of 8 pixels, lies as this one does.
    EXPECT_EQ(windows.place(5 + 24, 1) - windows.place(5, 1), windows.place(24, 0));
  }
}

// Of staged windows too: their pixels of one unit lie side by side.
TEST(ImplicitGemmWindows, StagedUnitsAreInAllBanks) {
  for (const int log_units : {1, 2}) {
    Windows windows{};
    windows.log_units = log_units;
    windows.bytes = 256 * windows.units() * implicit_gemm::kUnitBytes;
    std::set<int32_t> places;
    for (int32_t unit = 0; unit < windows.units(); ++unit) {
      for (int32_t pixel = 0; pixel < 256; ++pixel) {
        places.insert(staged_place(windows, pixel, unit));
        EXPECT_EQ(staged_place(windows, pixel, unit) - staged_place(windows, 0, unit),
                  pixel * implicit_gemm::kUnitBytes);
      }
    }
    EXPECT_EQ(places.size(), 256u * windows.units());
    EXPECT_EQ(*places.rbegin(), windows.bytes - implicit_gemm::kUnitBytes);
  }
}

TEST(ImplicitGemmWindows, AreWhereTapsShareThem) {
  const auto count = [](const char* text, Direction direction = Direction::kFprop,
                        int log_units = 2) {
    const std::vector<Arguments> launches = launches_of(text, direction, kTiles[2], log_units);
    return launches.empty() ? 0 : launches.front().windows.count;
  };
  EXPECT_EQ(count("n1c32h32w32 k32r3s3"), 1);
  EXPECT_EQ(count("n1c64h32w32 k32r3s3"), 2);
  EXPECT_EQ(count("n1c32h32w32 k32r3s3", Direction::kFprop, 1), 2);
  EXPECT_EQ(count("n1c32h32w32 k32r1s1"), 0);
  EXPECT_EQ(count("n1c32h32w32 k32r3s3 stride=2,2"), 0);
  EXPECT_EQ(count("n1c32h32w32 k32r3s3 stride=2,2", Direction::kDgrad), 1);
  // Phases of one tap have no step in which the next chunk's window could come.
  EXPECT_EQ(count("n1c32h32w32 k64r3s3 stride=2,2", Direction::kDgrad), 0);
}

}  // namespace
}  // namespace haloconv::testing
