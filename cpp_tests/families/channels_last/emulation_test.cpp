// The windows kernel with channels innermost, followed on the host: windows and filter tiles lie in
// shared memory as the copy engine puts them, are read by the descriptors that the kernel makes,
// and what comes out is held against the definition. All depths and types. Rings and the order in
// which warps take turns are not followed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/laid_filter.h"
#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/plan.h"
#include "cpp_tests/families/channels_last/emulated_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shared_memory_emulation.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

class Emulation {
 public:
  Emulation(const Conv2dProblem& p, const Plan& plan, const Values& source, const Values& filter)
      : p_(p),
        plan_(plan),
        launch_(std::get<WindowLaunch>(plan.launch)),
        args_(launch_.args),
        tile_(plan.tile),
        dgrad_(plan.direction == Direction::kDgrad),
        // Of float32 the kernel is fprop's, with a transposed filter.
        kernel_is_dgrad_(dgrad_ && tile_.element_bytes == 2),
        source_(source),
        filter_(filter) {}

  Values run() {
    Values result(dgrad_ ? input_count(p_) : output_count(p_), kNothing);
    for (int32_t tile = 0; tile < args_.tiles; ++tile) {
      const int32_t of_blocks = args_.channel_tiles.quotient(tile);
      const int32_t first_block = of_blocks * (tile_.pixels / kBlockPixels);
      const int32_t channel = (tile - of_blocks * args_.channel_tiles.divisor) * tile_.channels;
      std::vector<double> sums(size_t(tile_.pixels) * tile_.channels, 0);
      for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
        copy_windows(first_block, chunk * tile_.depth);
        uint32_t row_start = args_.first_tap_bytes;
        for (int32_t r = 0; r < args_.taps_h; ++r, row_start += args_.tap_row_bytes) {
          uint32_t tap = row_start;
          for (int32_t s = 0; s < args_.taps_w; ++s, tap += args_.tap_column_bytes) {
            copy_filter(chunk * tile_.depth, r, s, channel);
            multiply(tap, sums);
          }
        }
      }
      store(first_block, channel, sums, result);
      if (::testing::Test::HasFailure()) break;
    }
    return result;
  }

 private:
  static constexpr uint32_t kFilterAt = 160 * 1024;  // of the emulated memory, below 18 bits

  double& at(std::vector<double>& memory, uint32_t address) const {
    return memory.at(address / tile_.element_bytes);
  }

  double source(int64_t n, int64_t c, int64_t h, int64_t w) const {
    const int64_t channels = dgrad_ ? p_.k : p_.c, height = dgrad_ ? p_.p() : p_.h;
    const int64_t width = dgrad_ ? p_.q() : p_.w;
    if (launch_.flat) {
      n = w / (height * width);
      h = w % (height * width) / width;
      w %= width;
    }
    if (n >= p_.n || c >= channels || h < 0 || h >= height || w < 0 || w >= width) return 0;
    return source_.at(((n * channels + c) * height + h) * width + w);
  }

  void copy_windows(int32_t first_block, int32_t channel) {
    // What matrix rows that are no results read beyond the last window is inside of the block's
    // shared memory.
    const int32_t stages = args_.filter_stages * tile_.channels * tile_.row_bytes() +
                           (args_.window_stages - 1) * args_.boxes * args_.box_pitch + kAlignment;
    memory_.assign((launch_.shared_bytes - stages) / tile_.element_bytes, kNothing);
    for (int32_t box = 0; box < args_.boxes; ++box) {
      const BlockPlace place = args_.place_of(first_block, box << args_.log2_box_blocks);
      for (int32_t i = 0; i < args_.box_bytes / tile_.element_bytes; ++i) {
        const int32_t pixel = i / tile_.depth, column = pixel % launch_.box[1];
        at(memory_, swizzled(box * args_.box_pitch + i * tile_.element_bytes, tile_.row_bytes())) =
            source(place.image, channel + i % tile_.depth,
                   args_.first_h + place.row + pixel / launch_.box[1],
                   args_.first_w + place.column + column);
      }
    }
  }

  double filter(int64_t source_channel, int32_t r, int32_t s, int64_t channel) const {
    const int64_t k = dgrad_ ? source_channel : channel, c = dgrad_ ? channel : source_channel;
    if (k >= p_.k || c >= p_.c) return 0;
    return filter_.at(((k * p_.c + c) * p_.r + r) * p_.s + s);
  }

  // What threads lay there for a filter that stays, of a single tap and tile of channels.
  void lay_filter(int32_t source_channel) {
    const int32_t chunk_bytes = tile_.channels * tile_.row_bytes();
    for (int32_t i = 0; i < tile_.channels * tile_.depth; ++i) {
      const int32_t deep = source_channel + i / tile_.channels, channel = i % tile_.channels;
      const int32_t row = kernel_is_dgrad_ ? deep : channel;
      const int32_t column = kernel_is_dgrad_ ? channel : deep;
      const int32_t at_unit = laid_at(tile_, kernel_is_dgrad_, row, column / 8);
      at(filter_tile_, at_unit - source_channel / tile_.depth * chunk_bytes + column % 8 * 2) =
          filter(deep, 0, 0, channel);
    }
  }

  void copy_filter(int32_t source_channel, int32_t r, int32_t s, int32_t channel) {
    filter_tile_.assign(tile_.channels * tile_.depth, kNothing);
    if (args_.lays_filter) return lay_filter(source_channel);
    for (int32_t i = 0; i < tile_.channels * tile_.depth; ++i) {
      if (kernel_is_dgrad_) {
        const int32_t of_row = filter_row_channels(tile_);
        const int32_t wide = i / of_row / tile_.depth, deep = i / of_row % tile_.depth;
        at(filter_tile_, swizzled(i * 2, dgrad_row_bytes(tile_))) =
            filter(source_channel + deep, r, s, channel + wide * of_row + i % of_row);
      } else {
        at(filter_tile_, swizzled(i * tile_.element_bytes, tile_.row_bytes())) =
            filter(source_channel + i % tile_.depth, r, s, channel + i / tile_.depth);
      }
    }
  }

  void multiply(uint32_t tap, std::vector<double>& sums) {
    const int32_t deep_of_one = kOperandBytes / tile_.element_bytes;
    const uint64_t source_form = swizzled_form(tile_.row_bytes(), args_.group_bytes);
    std::vector<double> a(deep_of_one), b(size_t(deep_of_one) * tile_.channels);
    for (int32_t k = 0; k < tile_.depth; k += deep_of_one) {
      const uint64_t filter_at = filter_form(tile_, kernel_is_dgrad_) |
                                 operand_address(filter_step(tile_, kernel_is_dgrad_, k));
      for (int32_t n = 0; n < tile_.channels; ++n) {
        for (int32_t i = 0; i < deep_of_one; ++i) {
          b[size_t(i) * tile_.channels + n] =
              at(filter_tile_,
                 emulated_address(filter_at, !kernel_is_dgrad_, tile_.element_bytes, n, i));
        }
      }
      for (int32_t block = 0; block < tile_.pixels / kBlockPixels; ++block) {
        const uint32_t start = tap + args_.windows[block];
        const uint64_t source_at =
            (source_form | operand_address(start)) + k * tile_.element_bytes / 16;
        for (int32_t row = 0; row < kBlockPixels; ++row) {
          for (int32_t i = 0; i < deep_of_one; ++i) {
            a[i] = at(memory_, emulated_address(source_at, true, tile_.element_bytes, row, i));
          }
          double* const to = &sums[size_t(block * kBlockPixels + row) * tile_.channels];
          for (int32_t i = 0; i < deep_of_one; ++i) {
            for (int32_t n = 0; n < tile_.channels; ++n) {
              to[n] += a[i] * b[size_t(i) * tile_.channels + n];
            }
          }
        }
      }
    }
  }

  void store(int32_t first_block, int32_t channel, const std::vector<double>& sums,
             Values& result) const {
    const int64_t channels = dgrad_ ? p_.c : p_.k, height = dgrad_ ? p_.h : p_.p();
    const int64_t width = dgrad_ ? p_.w : p_.q();
    for (int32_t i = 0; i < tile_.pixels; ++i) {
      const int32_t number = first_block + i / kBlockPixels, pixel = i % kBlockPixels;
      const BlockPlace block = args_.place_of(first_block, i / kBlockPixels);
      const int32_t y = args_.block_pitch.quotient(pixel);
      const int32_t x = pixel - y * args_.block_pitch.divisor;
      const int32_t h = block.row + y, w = block.column + x;
      if (number >= args_.blocks || y >= args_.block_rows || x >= args_.block_columns ||
          h >= args_.height || w >= args_.width) {
        continue;
      }
      const int64_t plane = height * width;
      const int64_t in_plane = launch_.flat ? w % plane : h * width + w;
      const int64_t image = launch_.flat ? w / plane : block.image;
      for (int32_t n = 0; n < tile_.channels && channel + n < channels; ++n) {
        double& to = result.at((image * channels + channel + n) * plane + in_plane);
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = sums[size_t(i) * tile_.channels + n];
      }
    }
  }

  const Conv2dProblem& p_;
  const Plan& plan_;
  const WindowLaunch& launch_;
  const WindowArguments& args_;
  const Tile& tile_;
  const bool dgrad_, kernel_is_dgrad_;
  const Values &source_, &filter_;
  std::vector<double> memory_, filter_tile_;
};

class ChannelsLastWindowsEmulation : public ::testing::TestWithParam<const char*> {};

TEST_P(ChannelsLastWindowsEmulation, IsExactOnSmallIntegers) {
  int windows = 0;
  const auto check = [&](const Conv2dProblem& p, const Plan& plan, const Values& source,
                         const Values& filter, const Values& expected) {
    if (!plan.by_windows()) return;
    ++windows;
    // Rows that are no results read zeros or what nobody wrote.
    ASSERT_EQ(Emulation(p, plan, source, filter).run(), expected) << text_of(p, plan);
  };
  for_each_emulated_plan(GetParam(), h200(), check);
  EXPECT_GT(windows, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ChannelsLastWindowsEmulation,
                         ::testing::Values("n2c64h9w7 k72r1s1", "n1c64h13w17 k64r3s3 pad=1,1,1,1",
                                           "n2c16h12w21 k128r3s3", "n1c32h14w19 k64r5s9",
                                           "n1c32h15w31 k64r5s9 pad=2,2,4,4 dil=2,3",
                                           "n1c24h9w12 k16r3s3 pad=1,1,1,1",
                                           "n1c8h7w7 k40r3s3 pad=0,1,2,3",
                                           "n2c136h7w7 k24r3s3 pad=1,1,1,1", "n1c16h16w16 k96r1s1",
                                           "n2c24h9w7 k72r1s1", "n1c40h7w5 k136r1s1",
                                           "n1c64h16w19 k32r5s9 pad=4,4,12,12 dil=2,3"));

}  // namespace
}  // namespace haloconv::testing
