// The index arithmetic of the depthwise kernel of weight gradients by eights of images, on the
// host: splits are walked as the kernel walks them, and what comes out is held against the
// definition.
#include "conv2d/families/depthwise/images.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "chip/known_chips.h"
#include "conv2d/families/depthwise/images_walk.h"
#include "conv2d/families/depthwise/plan.h"
#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

Conv2dProblem of_16_bits(Conv2dProblem problem) {
  problem.type = DataType::kBFloat16;
  return channels_last(problem);
}

// One channel's sums of a split: of rows of the filter, columns of the input, of the gradient.
class SplitSums {
 public:
  explicit SplitSums(const Images& d) : d_(d), sums_(static_cast<size_t>(d.h.taps)) {}

  double& at(int32_t r, int32_t column, int32_t grad) { return sums_.at(r).at(column).at(grad); }
  void forget(uint32_t first) {
    for (auto& rows : sums_) {
      for (auto& columns : rows) std::fill(columns.begin() + first, columns.end(), 0);
    }
  }
  double of_tap(int32_t r, int32_t s) {
    double sum = 0;
    for (int32_t grad = 0; grad < d_.segment_columns; ++grad) {
      sum += at(r, grad * d_.w.step + s, grad);
    }
    return sum;
  }

 private:
  const Images& d_;
  std::vector<std::array<std::array<double, kGradColumns>, kInputColumns>> sums_;
};

template <int kTaps, int kStep>
void add_split(const Conv2dProblem& p, const Images& d, int32_t first, int32_t last,
               int32_t channel, const Values& grad_output, const Values& input, SplitSums& sums) {
  const auto input_at = [&](int64_t image, int64_t row, int64_t column) {
    if (image >= p.n || row < 0 || row >= p.h || column < 0 || column >= p.w) return 0.0;
    return input.at(image * p.input.n + row * p.input.h + column * p.input.w + channel);
  };
  constexpr int kPairs = image_pairs(kTaps, kStep);
  std::set<int32_t> brought;  // rows of the input
  ImagesWalk<image_lead(kTaps, kStep)> walk(d, first, last);
  for (; !walk.is_done(); walk.advance(d)) {
    if (walk.begins()) brought.clear();
    const int32_t first_row = 2 * (walk.pair() * kStep + kPairs - kStep) + d.h.origin;
    for (int32_t i = 0; i < 2 * kStep; ++i) brought.insert(first_row + i);
    const uint32_t kind = walk.kind(d);
    const auto [segment, eight] = walk.place(d);
    const int64_t columns = d.columns_of(segment), first_image = int64_t{8} * eight;
    ASSERT_EQ((kind & ImagesStep::kHasOutputs) != 0, !walk.is_lead());
    for (int row = 0; row < 2 && !walk.is_lead(); ++row) {
      const int32_t output = 2 * walk.pair() + row;
      ASSERT_EQ(output < d.h.outputs, row == 0 || (kind & ImagesStep::kHasBothRows) != 0);
      if (output >= d.h.outputs) continue;
      for (int64_t image = first_image; image < std::min(p.n, first_image + 8); ++image) {
        for (int32_t r = 0; r < kTaps; ++r) {
          const int32_t source = output * kStep + r + d.h.origin;
          ASSERT_TRUE(brought.contains(source));
          for (int32_t x = 0; x < d.w.window; ++x) {
            const int64_t begin = int64_t{segment} * d.segment_columns;
            for (int32_t g = 0; g < d.segment_columns; ++g) {
              // What does not exist becomes what must be forgotten.
              const double grad = g < columns
                                      ? grad_output.at(image * p.output.n + output * p.output.h +
                                                       (begin + g) * p.output.w + channel)
                                      : 1e6;
              sums.at(r, x, g) += grad * input_at(image, source, begin * kStep + d.w.origin + x);
            }
          }
        }
      }
    }
    const uint32_t kept = kind & ImagesStep::kColumns;
    if (kept != 0) sums.forget(kept);
  }
}

Values emulate(const Conv2dProblem& p, const Images& d, int32_t split_tiles,
               const Values& grad_output, const Values& input) {
  Values gradient(static_cast<size_t>(filter_count(p)));
  for (int32_t channel = 0; channel < d.channels.divisor; ++channel) {
    for (int32_t first = 0; first < d.tiles; first += split_tiles) {
      SplitSums sums(d);
      const int32_t last = std::min(first + split_tiles, d.tiles);
      const auto add = [&](auto add_split) {
        add_split(p, d, first, last, channel, grad_output, input, sums);
      };
      switch (d.w.taps * 10 + d.w.step) {
        case 31:
          add(add_split<3, 1>);
          break;
        case 32:
          add(add_split<3, 2>);
          break;
        case 51:
          add(add_split<5, 1>);
          break;
        case 52:
          add(add_split<5, 2>);
          break;
        case 71:
          add(add_split<7, 1>);
          break;
        case 72:
          add(add_split<7, 2>);
          break;
        default:
          ADD_FAILURE() << p;
      }
      for (int32_t r = 0; r < d.h.taps; ++r) {
        for (int32_t s = 0; s < d.w.taps; ++s) {
          gradient.at((channel * d.h.taps + r) * d.w.taps + s) += sums.of_tap(r, s);
        }
      }
    }
  }
  return gradient;
}

TEST(DepthwiseImages, FollowsTheDefinition) {
  int tested = 0;
  std::set<bool> has_short_segments, has_single_rows, has_missing_images;
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem p = of_16_bits(shape.problem);
    const auto d = make_images(p, h200());
    if (!d || d->w.taps == 4) continue;
    const Values input = small_integers(input_count(p), 1);
    const Values grad_output = small_integers(output_count(p), 3);
    const Values expected = reference_wgrad(p, grad_output, input);
    for (const int32_t split_tiles : {1, 5, d->tiles}) {
      EXPECT_EQ(emulate(p, *d, split_tiles, moved(grad_output, p.k, p.p(), p.q()),
                        moved(input, p.c, p.h, p.w)),
                expected)
          << shape << ' ' << split_tiles;
    }
    has_short_segments.insert(d->columns_of(d->segments - 1) < d->segment_columns);
    has_single_rows.insert(d->h.outputs % 2 != 0);
    has_missing_images.insert(p.n % kImagesAtOnce != 0);
    ++tested;
  }
  EXPECT_GE(tested, 7);
  EXPECT_EQ(has_short_segments.size(), 2U);
  EXPECT_EQ(has_single_rows.size(), 2U);
  EXPECT_TRUE(has_missing_images.contains(true));
}

TEST(DepthwiseImages, SegmentsMeetNoMoreColumnsThanTheInstructionHasBesideTheOnes) {
  for (const char* file : {"edges", "layers", "networks", "reference"}) {
    for (const Shape& shape : load_shapes(file)) {
      const auto d = make_images(of_16_bits(shape.problem), h200());
      if (!d) continue;
      EXPECT_LT(d->w.window, kInputColumns) << shape;
      EXPECT_LE(d->segment_columns, kGradColumns) << shape;
      EXPECT_GT(d->columns_of(d->segments - 1), 0) << shape;
      EXPECT_LE(images_shared_bytes(d->w.step) + 1024, h200().shared_bytes_per_multiprocessor);
      EXPECT_GE(d->resident(h200()), 1) << shape;
    }
  }
}

TEST(DepthwiseImages, TakesWhatItSaysItTakes) {
  const auto takes = [](const std::string& text, DataType type = DataType::kBFloat16) {
    Conv2dProblem p = channels_last(parse_shape("a " + text).problem);
    p.type = type;
    return make_images(p, h200()).has_value();
  };
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", DataType::kFloat16));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8", DataType::kFloat32));
  EXPECT_TRUE(takes("n1c8h9w9 k8r4s4 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r7s7 groups=8 stride=2,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r5s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2"));
  EXPECT_FALSE(takes("n1c12h9w9 k12r3s3 groups=12"));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_FALSE(takes("n1073741824c1073741824h3w134217728 k1073741824r3s3 groups=1073741824"));
  Conv2dProblem rows = parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem;
  rows.type = DataType::kBFloat16;
  EXPECT_FALSE(make_images(rows, h200()).has_value());
  Chip old = h200();
  old.compute_capability = 75;
  EXPECT_FALSE(make_images(channels_last(rows), old).has_value());
}

}  // namespace
}  // namespace haloconv::testing
