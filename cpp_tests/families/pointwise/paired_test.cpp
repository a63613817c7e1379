// The weight gradient of filters two columns wide with a stride of 2: which elements the kernel
// brings and multiplies, and where its sums go, on the host. No GPU is needed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "conv2d/families/pointwise/unfold.h"
#include "cpp_tests/families/pointwise/unfold_shapes.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace pointwise;

// What the blocks of a problem do, with its dense tensors.
class PairedEmulation {
 public:
  PairedEmulation(const Conv2dProblem& p, const PairedArguments& args, const Values& grad_output,
                  const Values& input)
      : p_(p),
        args_(args),
        values_(static_cast<int32_t>(size_of(p.type) / 2)),
        grad_output_(grad_output),
        input_(input),
        partial_(args.product.splits * args.product.partial_floats(),
                 std::numeric_limits<double>::quiet_NaN()) {}

  void run() {
    const WgradArguments& product = args_.product;
    for (int32_t split = 0; split < product.splits; ++split) {
      for (int32_t row_tile = 0; row_tile < product.row_tiles; ++row_tile) {
        for (int32_t half = 0; half < 2 * product.column_tiles; ++half)
          run_half(split, row_tile, half);
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
    ASSERT_GT(chunks, 0);
    for (int32_t row = 0; row < kPairedTile.rows; ++row) {
      const int32_t k = row_tile * kPairedTile.rows + row;
      for (int32_t c = first; c < end; ++c) {
        double sums[2] = {};
        for (int32_t index = first_chunk * kDepth; index < (first_chunk + chunks) * kDepth;
             index += values_) {
          if (k < product.rows) add(k, c, tap, index, sums);
        }
        for (int s = 0; s < 2; ++s) {
          double& to =
              partial_.at((int64_t{split} * product.padded_rows + k) * product.padded_columns +
                          c * (2 * args_.taps_h) + 2 * tap + s);
          EXPECT_TRUE(std::isnan(to)) << "written twice";
          to = sums[s];
        }
      }
    }
  }

  void add(int32_t k, int32_t c, int32_t tap, int32_t index, double (&sums)[2]) const {
    const WgradArguments& product = args_.product;
    if (index >= product.pixels) return;
    const int32_t image = args_.image.quotient(index);
    const int32_t in_image = index - image * args_.image.divisor;
    const int32_t p = args_.row.quotient(in_image);
    const int32_t h = p * args_.stride_h + tap * args_.dilation_h - args_.pad_top;
    if (h < 0 || h >= args_.height) return;
    const double grad =
        grad_output_.at((image * product.output_n + k * product.output_k + in_image) / values_);
    const int64_t pair = image * args_.input_n + h * args_.input_h +
                         2 * (in_image - p * args_.row.divisor) + c * args_.input_c;
    sums[0] += grad * input_.at(pair / values_);
    sums[1] += grad * input_.at(pair / values_ + 1);
  }

  const Conv2dProblem& p_;
  const PairedArguments& args_;
  const int32_t values_;
  const Values &grad_output_, &input_;
  Values partial_;
};

TEST(PointwisePaired, FollowsTheDefinition) {
  int taken = 0;
  for (const UnfoldShape& shape : unfold_shapes()) {
    for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
      const Conv2dProblem p = problem_of(shape, type);
      for (const int splits : {1, 3}) {
        const auto args = make_paired_arguments(p, splits);
        if (!args) continue;
        ++taken;
        const Values grads = small_integers(output_count(p), 3),
                     input = small_integers(input_count(p), 1);
        PairedEmulation emulation(p, *args, grads, input);
        emulation.run();
        EXPECT_EQ(emulation.gradient(), reference_wgrad(p, grads, input)) << shape.name;
      }
    }
  }
  EXPECT_GE(taken, 16);
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
  // Places of a row's 16 bytes stay together.
  for (int32_t row = 0; row < 8; ++row) {
    for (int32_t byte = 0; byte < kDepth * kPairBytes; ++byte) {
      EXPECT_EQ(paired_place(row, byte), paired_place(row, byte / 16 * 16) + byte % 16);
    }
  }
  EXPECT_LE(paired_shared_bytes(), kMaxShared);
}

TEST(PointwisePaired, IsOfFiltersTwoColumnsWide) {
  const auto takes = [](const char* text, DataType type = DataType::kBFloat16) {
    Conv2dProblem p = parse_shape("a " + std::string(text)).problem;
    p.type = type;
    return make_paired_arguments(p, 1).has_value();
  };
  EXPECT_TRUE(takes("n1c8h16w16 k8r2s2 stride=2,2"));
  EXPECT_TRUE(takes("n1c8h16w16 k8r3s2 stride=1,2 pad=1,1,0,0 dil=2,1"));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s2 stride=2,1"));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s3 stride=2,2"));
  EXPECT_FALSE(takes("n1c8h16w16 k8r2s2 stride=2,2 pad=0,0,1,1"));
  EXPECT_FALSE(takes("n1c8h16w15 k8r2s2 stride=2,2 pad=0,0,0,1"));
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
