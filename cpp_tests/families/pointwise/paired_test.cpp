// The weight gradient of filters two to four columns wide with a stride of 2: which elements the
// kernel brings and multiplies, and where its sums go, on the host. No GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "cpp_tests/families/pointwise/paired_shapes.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace pointwise;

// What the blocks of a problem do, with its dense tensors.
class PairedEmulation {
 public:
  PairedEmulation(DataType type, const PairedArguments& args, const Values& grad_output,
                  const Values& input)
      : args_(args),
        values_(static_cast<int32_t>(size_of(type) / 2)),
        grad_output_(grad_output),
        input_(input),
        partial_(args.product.splits * args.product.partial_floats(),
                 std::numeric_limits<double>::quiet_NaN()) {}

  void run() {
    const WgradArguments& product = args_.product;
    for (int32_t split = 0; split < product.splits; ++split) {
      for (int32_t row_tile = 0; row_tile < product.row_tiles; ++row_tile) {
        for (int32_t half = 0; half < 2 * product.column_tiles; ++half) {
          run_half(split, row_tile, half);
        }
      }
    }
  }

  // As the kernel that adds them reads them: (k, c, r, s).
  Values gradient() const {
    const WgradArguments& product = args_.product;
    Values sums;
    for (int64_t k = 0; k < product.rows; ++k) {
      for (int64_t column = 0; column < product.columns; ++column) {
        double sum = 0;
        for (int64_t split = 0; split < product.splits; ++split) {
          sum += partial_.at((split * product.padded_rows + k) * product.padded_columns + column);
        }
        sums.push_back(sum);
      }
    }
    return sums;
  }

 private:
  void run_half(int32_t split, int32_t row_tile, int32_t half) {
    const WgradArguments& product = args_.product;
    const int32_t tap = args_.channel_blocks.quotient(half);
    const int32_t first = (half - tap * args_.channel_blocks.divisor) * kPairedChannels;
    const int32_t end = tap < args_.taps_h ? std::min(first + kPairedChannels, args_.channels) : 0;
    const int32_t first_chunk = split * product.split_chunks;
    const int32_t chunks = std::min(product.split_chunks, product.chunks - first_chunk);
    const int32_t rows = paired_channels(args_.taps_w);
    ASSERT_GT(chunks, 0);
    for (int32_t c = first; c < end; ++c) {
      std::vector<Values> sums(rows, Values(args_.taps_w));
      for (int32_t chunk = first_chunk; chunk < first_chunk + chunks; ++chunk) {
        const Values pairs = bring(chunk * kDepth, c, tap);
        for (int32_t row = 0; row < rows; ++row) {
          const int32_t k = row_tile * rows + row;
          for (int32_t at = 0; at < kDepth && k < product.rows; at += values_) {
            const double grad = grad_of(k, chunk * kDepth + at);
            for (int32_t s = 0; s < args_.taps_w; ++s) {
              // The element's place behind the 16 bytes before the chunk's.
              sums[row][s] += grad * pairs.at((2 * at + 8) / values_ + s - args_.pad_left);
            }
          }
        }
      }
      for (int32_t row = 0; row < rows; ++row) {
        const int64_t k = row_tile * rows + row;
        for (int32_t s = 0; s < args_.taps_w; ++s) {
          double& to = partial_.at((split * product.padded_rows + k) * product.padded_columns +
                                   c * (args_.taps_w * args_.taps_h) + args_.taps_w * tap + s);
          EXPECT_TRUE(std::isnan(to)) << "written twice";
          to = sums[row][s];
        }
      }
    }
  }

  // A row of pairs of a chunk with the 16 bytes before and after it; what is not brought is NaN.
  Values bring(int32_t first, int32_t c, int32_t tap) const {
    const WgradArguments& product = args_.product;
    Values pairs((2 * kDepth + 16) / values_, std::numeric_limits<double>::quiet_NaN());
    // Eight 16-bit values of the input, which belong to the pixel at `index`, `further` on.
    const auto unit = [&](int32_t index, int32_t further, int32_t to) {
      const int32_t image = args_.image.quotient(index);
      const int32_t in_image = index - image * args_.image.divisor;
      const int32_t p = args_.row.quotient(in_image);
      const int32_t h = p * args_.stride_h + tap * args_.dilation_h - args_.pad_top;
      const int32_t value = 2 * (in_image - p * args_.row.divisor) + further;
      const bool exists =
          index < product.pixels && h >= 0 && h < args_.height && value >= 0 && value < args_.width;
      const int64_t from = image * args_.input_n + h * args_.input_h + c * args_.input_c + value;
      EXPECT_TRUE(!exists || from % 8 == 0);
      for (int32_t i = 0; i < 8 / values_; ++i) {
        pairs.at(to / values_ + i) = exists ? input_.at(from / values_ + i) : 0;
      }
    };
    for (int32_t i = 0; i < kDepth / 4; ++i) unit(first + 4 * i, 0, 8 + 8 * i);
    if (args_.has_neighbours()) {
      unit(first, -8, 0);
      unit(first, 2 * kDepth, 8 + 2 * kDepth);
    }
    return pairs;
  }

  double grad_of(int32_t k, int32_t index) const {
    const WgradArguments& product = args_.product;
    if (index >= product.pixels) return 0;
    const int32_t image = product.image_pixels.quotient(index);
    const int64_t in_image = index - image * product.image_pixels.divisor;
    return grad_output_.at((image * product.output_n + k * product.output_k + in_image) / values_);
  }

  const PairedArguments& args_;
  const int32_t values_;
  const Values &grad_output_, &input_;
  Values partial_;
};

TEST(PointwisePaired, FollowsTheDefinition) {
  for (const TypedShape& shape : paired_shapes()) {
    const Conv2dProblem& p = shape.problem;
    for (const int splits : {1, 3}) {
      const auto args = make_paired_arguments(p, splits);
      ASSERT_TRUE(args) << shape;
      const Values grads = small_integers(output_count(p), 3);
      const Values input = small_integers(input_count(p), 1);
      PairedEmulation emulation(p.type, *args, grads, input);
      emulation.run();
      EXPECT_EQ(emulation.gradient(), reference_wgrad(p, grads, input)) << shape.name;
    }
  }
}

// A warp's threads read pairs from different banks: half a warp 8 bytes each at a time.
TEST(PointwisePaired, ReadsFromDifferentBanks) {
  for (int32_t step = 0; step < kDepth / 16; ++step) {
    for (int32_t first = 0; first < 32; first += 16) {
      uint32_t banks = 0;
      for (int32_t lane = first; lane < first + 16; ++lane) {
        const int32_t at = paired_place(lane / 4, step * 64 + lane % 4 * 8);
        EXPECT_EQ(at % 8, 0);
        banks |= 3u << (at / 4 % 32);
      }
      EXPECT_EQ(banks, ~0u);
    }
  }
  // Rows' 16 bytes follow each other.
  for (int32_t row = 0; row < 8; ++row) {
    EXPECT_EQ(paired_place(row, 0) % 16, 0);
    EXPECT_EQ(paired_place(row, kDepth * kPairBytes) + 16, paired_place(row + 1, -16));
  }
  for (const int taps_w : {2, 3, 4}) {
    EXPECT_LE(paired_shared_bytes(taps_w), kMaxShared);
    EXPECT_EQ(paired_chunk_bytes(taps_w) % 1024, 0) << "the swizzle's period";
  }
}

TEST(PointwisePaired, IsOfFiltersOfAFewColumns) {
  const auto takes = [](const char* text, DataType type = DataType::kBFloat16) {
    Conv2dProblem p = parse_shape("a " + std::string(text)).problem;
    p.type = type;
    return make_paired_arguments(p, 1).has_value();
  };
  EXPECT_TRUE(takes("n1c8h16w16 k8r2s2 stride=2,2"));
  EXPECT_TRUE(takes("n1c8h16w16 k8r3s2 stride=1,2 pad=1,1,0,0 dil=2,1"));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s2 stride=2,1"));
  EXPECT_TRUE(takes("n1c8h16w128 k8r3s3 stride=2,2 pad=1,1,1,1"));
  EXPECT_TRUE(takes("n1c8h16w128 k8r3s3 stride=2,2 pad=0,1,0,1"));
  EXPECT_TRUE(takes("n1c8h16w128 k8r4s4 stride=2,2 pad=1,1,1,1"));
  EXPECT_TRUE(takes("n1c8h1w256 k8r1s4 stride=1,2 pad=0,0,1,1"));
  EXPECT_FALSE(takes("n1c8h16w64 k8r4s4 stride=2,2 pad=1,1,1,1")) << "chunks of two rows";
  EXPECT_TRUE(takes("n1c8h16w64 k8r4s4 stride=2,2 pad=1,1,1,1", DataType::kFloat32));
  EXPECT_FALSE(takes("n1c8h16w128 k8r4s4 stride=2,2 pad=0,0,0,2"));
  EXPECT_FALSE(takes("n1c8h16w128 k8r5s5 stride=2,2 pad=2,2,2,2"));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s2 stride=2,2 pad=0,0,1,1"));
  EXPECT_FALSE(takes("n1c8h16w15 k8r2s2 stride=2,2 pad=0,0,0,1")) << "rows of no whole units";
  EXPECT_FALSE(takes("n1c12h16w16 k8r2s2 stride=2,2"));
  EXPECT_FALSE(takes("n1c16h16w16 k8r2s2 stride=2,2 groups=2"));
  EXPECT_FALSE(takes("n1c8h16w12 k8r2s2 stride=2,2")) << "rows of no whole units";
  EXPECT_TRUE(takes("n1c8h16w12 k8r2s2 stride=2,2", DataType::kFloat32));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s2 stride=2,2", DataType::kFloat64));
  Conv2dProblem channels = parse_shape("a n1c8h16w16 k8r2s2 stride=2,2").problem;
  channels.set_dense_strides(true);
  EXPECT_FALSE(make_paired_arguments(channels, 1));
}

}  // namespace
}  // namespace haloconv::testing
