// The kernel of strips with channels innermost, followed on the host: source rows and the filter
// lie in shared memory as the copy engine puts them, are read by the descriptors that the kernel
// makes, and what comes out is held against the definition. The ring is not followed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/plan.h"
#include "cpp_tests/families/channels_last/emulated_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/shared_memory_emulation.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

class StripsEmulation {
 public:
  StripsEmulation(const Conv2dProblem& p, const Plan& plan, const Values& source,
                  const Values& filter)
      : p_(p),
        launch_(std::get<StripLaunch>(plan.launch)),
        args_(launch_.args),
        tile_(plan.tile),
        dgrad_(plan.direction == Direction::kDgrad),
        // Of float32 the kernel is fprop's, with a transposed filter.
        kernel_is_dgrad_(dgrad_ && tile_.element_bytes == 2),
        source_(source),
        filter_(filter),
        result_(dgrad_ ? input_count(p_) : output_count(p_), kNothing) {}

  Values run() {
    memory_.assign(launch_.shared_bytes / tile_.element_bytes, kNothing);
    for (int32_t block = 0; block < launch_.blocks; ++block) {
      const int32_t end = args_.end_of(block);
      first_channel_ = args_.channel_tile_of(block) * tile_.channels;
      copy_filter();
      for (int32_t at = args_.first_row_of(block); at < end;) {
        const StripPart part = args_.part(at, end);
        compute(part);
        at += part.rows;
      }
    }
    return result_;
  }

 private:
  using Sums = std::vector<double>;  // of a destination row: (matrix rows x channels)

  double& at(uint32_t address) { return memory_.at(address / tile_.element_bytes); }
  uint32_t windows() const { return args_.filter_bytes; }
  int32_t matrix_rows() const { return kMathGroups * 64; }

  double source(int64_t n, int64_t c, int64_t h, int64_t w) const {
    const int64_t channels = dgrad_ ? p_.k : p_.c, height = dgrad_ ? p_.p() : p_.h;
    const int64_t width = dgrad_ ? p_.q() : p_.w;
    if (n >= p_.n || c >= channels || h < 0 || h >= height || w < 0 || w >= width) return 0;
    return source_.at(((n * channels + c) * height + h) * width + w);
  }
  double filter(int64_t source_channel, int32_t r, int32_t s, int64_t channel) const {
    const int64_t k = dgrad_ ? source_channel : channel, c = dgrad_ ? channel : source_channel;
    if (k >= p_.k || c >= p_.c) return 0;
    return filter_.at(((k * p_.c + c) * p_.r + r) * p_.s + s);
  }

  void copy_filter() {
    uint32_t to = 0;
    const int32_t count = tile_.channels * tile_.depth;
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      for (int32_t column = 0; column < args_.taps_w; ++column) {
        for (int32_t row = 0; row < args_.taps_h; ++row, to += count * tile_.element_bytes) {
          const int32_t s = args_.is_mirrored ? args_.taps_w - 1 - column : column;
          const int32_t r = args_.is_mirrored ? row : args_.taps_h - 1 - row;
          for (int32_t i = 0; i < count; ++i) {
            const uint32_t address = to + i * tile_.element_bytes;
            const int32_t channels = filter_row_channels(tile_), first = chunk * tile_.depth;
            if (kernel_is_dgrad_) {
              at(swizzled(address, dgrad_row_bytes(tile_))) =
                  filter(first + i / channels, r, s, first_channel_ + i % channels);
            } else {
              at(swizzled(address, tile_.row_bytes())) =
                  filter(first + i % tile_.depth, r, s, first_channel_ + i / tile_.depth);
            }
          }
        }
      }
    }
  }

  void copy_window(const StripPart& part, int32_t row, int32_t chunk) {
    for (int32_t i = 0; i < args_.window_bytes / tile_.element_bytes; ++i) {
      const int32_t pixel = i / tile_.depth, column = pixel % launch_.box[1];
      at(swizzled(windows() + i * tile_.element_bytes, tile_.row_bytes())) =
          source(part.image + pixel / launch_.box[1], chunk * tile_.depth + i % tile_.depth, row,
                 args_.first_w + part.column + column);
    }
  }

  // A source row's chunk for all filter columns.
  void multiply(int32_t chunk, std::vector<Sums>& sums) {
    const int32_t deep = kOperandBytes / tile_.element_bytes, bytes = tile_.element_bytes;
    const uint32_t tap_filter = args_.taps_h * tile_.channels * tile_.row_bytes();
    const auto value_at = [&](uint32_t address) { return at(address); };
    const int32_t columns = args_.taps_h * tile_.channels;
    for (int32_t tap = 0; tap < args_.taps_w; ++tap) {
      for (int32_t k = 0; k < tile_.depth; k += deep) {
        const uint64_t filter_at = (filter_form(tile_, kernel_is_dgrad_) |
                                    operand_address((chunk * args_.taps_w + tap) * tap_filter)) +
                                   filter_step(tile_, kernel_is_dgrad_, k) / 16;
        const Values filters =
            emulated_operand(value_at, filter_at, !kernel_is_dgrad_, bytes, columns);
        for (int32_t group = 0; group < kMathGroups; ++group) {
          const uint64_t source_at = (swizzled_form(tile_.row_bytes(), 8 * tile_.row_bytes()) |
                                      operand_address(windows() + group * args_.group_bytes)) +
                                     tap * args_.tap_bytes / 16 + k * bytes / 16;
          Values products(size_t{64} * columns, 0);
          add_products(products, emulated_operand(value_at, source_at, true, bytes, 64), filters,
                       64, columns);
          for (int32_t row = 0; row < 64; ++row) {
            for (int32_t n = 0; n < columns; ++n) {
              sums[n / tile_.channels][(group * 64 + row) * tile_.channels + n % tile_.channels] +=
                  products[row * columns + n];
            }
          }
        }
      }
    }
  }

  void compute(const StripPart& part) {
    const Sums none(size_t(matrix_rows()) * tile_.channels, 0);
    std::vector<Sums> sums(args_.taps_h, none);
    for (int32_t i = 0; i < part.rows + args_.taps_h - 1; ++i) {
      for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
        copy_window(part, args_.first_h + part.row + i * args_.row_step.divisor, chunk);
        multiply(chunk, sums);
      }
      const int32_t done = i - (args_.taps_h - 1);
      if (done >= 0) store(part, part.row + done * args_.row_step.divisor, sums.front());
      sums.erase(sums.begin());
      sums.push_back(none);
    }
  }

  void store(const StripPart& part, int32_t h, const Sums& sums) {
    const int64_t channels = dgrad_ ? p_.c : p_.k;
    if (h >= args_.height) return;
    for (int32_t row = 0; row < matrix_rows(); ++row) {
      const StripPixel pixel = args_.pixel(part, row / 64, row % 64);
      if (!pixel.exists) continue;
      for (int32_t n = 0; n < tile_.channels && first_channel_ + n < channels; ++n) {
        const int64_t plane = (pixel.image * channels + first_channel_ + n) * args_.height + h;
        double& to = result_.at(plane * args_.width + pixel.column);
        EXPECT_TRUE(std::isnan(to)) << "written twice";
        to = sums[row * tile_.channels + n];
      }
    }
  }

  const Conv2dProblem& p_;
  const StripLaunch& launch_;
  const StripArguments& args_;
  const Tile& tile_;
  const bool dgrad_, kernel_is_dgrad_;
  const Values &source_, &filter_;
  Values result_;
  std::vector<double> memory_;
  int32_t first_channel_ = 0;  // of a block
};

class ChannelsLastStripsEmulation : public ::testing::TestWithParam<const char*> {};

TEST_P(ChannelsLastStripsEmulation, IsExactOnSmallIntegers) {
  Chip chip = h200();
  chip.multiprocessors = 5;  // a block goes down some rows, and from strip to strip
  int strips = 0;
  const auto check = [&](const Conv2dProblem& p, const Plan& plan, const Values& source,
                         const Values& filter, const Values& expected) {
    if (!std::holds_alternative<StripLaunch>(plan.launch)) return;
    ++strips;
    // Rows that are no results read zeros or what nobody wrote.
    ASSERT_EQ(StripsEmulation(p, plan, source, filter).run(), expected) << text_of(p, plan);
  };
  for_each_emulated_plan(GetParam(), chip, check);
  EXPECT_GT(strips, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ChannelsLastStripsEmulation,
                         ::testing::Values("n1c16h11w140 k24r3s3", "n2c16h7w70 k16r3s3 pad=1,1,1,1",
                                           "n5c8h9w12 k72r3s3 pad=0,1,2,3",
                                           "n1c32h12w27 k64r5s9 pad=2,2,4,4 dil=2,3",
                                           "n3c24h13w15 k32r4s2 dil=3,1", "n9c64h6w5 k40r2s1",
                                           "n2c16h8w8 k136r3s3 pad=1,1,1,1"));

std::vector<Plan> strips_of(const char* text, Direction direction) {
  std::vector<Plan> plans;
  const Conv2dProblem p = channels_last_problem(text, DataType::kBFloat16);
  for (const Plan& plan : make_plans(p, direction, h200())) {
    if (std::holds_alternative<StripLaunch>(plan.launch)) plans.push_back(plan);
  }
  return plans;
}

TEST(ChannelsLastStrips, AreForFewDestinationChannelsAndFiltersOfSomeRows) {
  EXPECT_FALSE(strips_of("n1c16h64w64 k128r3s3", Direction::kDgrad).empty());
  EXPECT_FALSE(strips_of("n1c16h64w64 k256r3s3", Direction::kFprop).empty());
  EXPECT_TRUE(strips_of("n1c16h64w64 k264r3s3", Direction::kFprop).empty());
  EXPECT_FALSE(strips_of("n1c128h64w64 k16r3s3", Direction::kFprop).empty());
  EXPECT_TRUE(strips_of("n1c128h64w64 k16r1s3", Direction::kFprop).empty());
  EXPECT_TRUE(strips_of("n1c128h64w64 k16r3s3 stride=2,1", Direction::kFprop).empty());
}

TEST(ChannelsLastStrips, FitSharedMemory) {
  for (const char* file : {"reference", "edges", "eights", "layers", "networks"}) {
    for (const Shape& shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
        Conv2dProblem p = shape.problem;
        p.type = type;
        p.set_dense_strides(true);
        for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
          if (!declines(p, direction, true, h200()).empty()) continue;
          for (const Plan& plan : make_plans(p, direction, h200())) {
            const auto* strips = std::get_if<StripLaunch>(&plan.launch);
            if (strips == nullptr) continue;
            EXPECT_LE(strips->shared_bytes, 224 * 1024) << text_of(p, plan);
            EXPECT_GE(strips->args.stages, 2) << text_of(p, plan);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace haloconv::testing
