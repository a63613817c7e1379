// The index arithmetic of the depthwise kernels for channels innermost, on the host: blocks are
// walked as the kernels walk them, and what comes out is held against the definition.
#include "conv2d/families/depthwise/channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "chip/known_chips.h"
#include "conv2d/families/depthwise/work.h"
#include "conv2d/geometry/geometry.h"
#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

// Calls body(image, channel, h, w) for each output of each thread.
void walk(const DepthwiseNhwc& d,
          const std::function<void(int32_t, int32_t, int32_t, int32_t)>& body) {
  for (int64_t block = 0; block < d.blocks(); ++block) {
    const auto tile = static_cast<int32_t>(block / d.channel_tiles.divisor);
    const auto first = static_cast<int32_t>(block % d.channel_tiles.divisor * kSpanLanes);
    const int32_t row_tiles = tile / d.w.tiles, image = row_tiles / d.h.tiles;
    for (int32_t thread = 0; thread < d.threads(); ++thread) {
      const int32_t span = thread / kSpanLanes, channel = first + thread % kSpanLanes;
      if (channel >= d.channels.divisor) continue;
      const int32_t w = (tile % d.w.tiles * d.w.threads + span) * kSpanColumns;
      const int32_t h = row_tiles % d.h.tiles * d.tile_rows;
      for (int32_t y = h; y < std::min(h + d.tile_rows, d.h.outputs); ++y) {
        for (int32_t x = w; x < std::min(w + kSpanColumns, d.w.outputs); ++x) {
          body(image, channel, y, x);
        }
      }
      // The last span's last column is in the window.
      const int32_t width = (kSpanColumns - 1) * d.w.step + d.w.taps;
      ASSERT_LE(span * kSpanColumns * d.w.step + width, d.w.window);
    }
  }
}

// Calls body(source row, source column, r, s) for the taps of an output that meet the source: r and
// s count from the first one met.
template <class Body>
void for_taps(const DepthwiseNhwc& d, int32_t h, int32_t w, Body body) {
  for (int32_t r = 0; r < d.h.taps; ++r) {
    for (int32_t s = 0; s < d.w.taps; ++s) {
      const int32_t row = h * d.h.step + d.h.origin + r, column = w * d.w.step + d.w.origin + s;
      if (row < 0 || row >= d.h.source_size || column < 0 || column >= d.w.source_size) continue;
      body(row, column, r, s);
    }
  }
}

Values emulate(const Conv2dProblem& problem, const DepthwiseNhwc& d, Direction direction,
               const Values& source, const Values& filter) {
  const Gather g = make_gather(problem, direction);
  Values destination(direction == Direction::kFprop ? output_count(problem) : input_count(problem),
                     kUnwritten);
  walk(d, [&](int32_t image, int32_t channel, int32_t h, int32_t w) {
    const int64_t first = channel * g.filter_group + d.filter_first;
    double sum = 0;
    for_taps(d, h, w, [&](int32_t row, int32_t column, int32_t r, int32_t s) {
      sum += source.at(image * g.source.n + channel + row * g.source.h + column * g.source.w) *
             filter.at(first + r * d.h.filter_step + s * d.w.filter_step);
    });
    double& to = destination.at(image * g.destination.n + channel + h * g.destination.h +
                                w * g.destination.w);
    EXPECT_EQ(to, kUnwritten) << "written twice";
    to = sum;
  });
  return destination;
}

// Partial sums are (channel, r, s).
Values emulate_wgrad(const Conv2dProblem& p, const DepthwiseNhwc& d, const Values& grad_output,
                     const Values& input) {
  Values sums(filter_count(p));
  walk(d, [&](int32_t image, int32_t channel, int32_t h, int32_t w) {
    const double grad =
        grad_output.at(image * p.output.n + channel + h * p.output.h + w * p.output.w);
    for_taps(d, h, w, [&](int32_t row, int32_t column, int32_t r, int32_t s) {
      sums.at((channel * d.h.taps + r) * d.w.taps + s) +=
          grad * input.at(image * p.input.n + channel + row * p.input.h + column * p.input.w);
    });
  });
  return sums;
}

TEST(DepthwiseNhwc, FollowsTheDefinition) {
  int fprop = 0, dgrad = 0, wgrad = 0;
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem p = channels_last(shape.problem);
    fprop += follows_definition(p, Direction::kFprop, make_depthwise_nhwc, emulate);
    dgrad += follows_definition(p, Direction::kDgrad, make_depthwise_nhwc, emulate);
    if (const auto d = make_depthwise_nhwc(p, Direction::kWgrad)) {
      const Values input = small_integers(input_count(p), 1);
      const Values grad_output = small_integers(output_count(p), 3);
      EXPECT_EQ(
          emulate_wgrad(p, *d, moved(grad_output, p.k, p.p(), p.q()), moved(input, p.c, p.h, p.w)),
          reference_wgrad(p, grad_output, input))
          << shape;
      ++wgrad;
    }
  }
  EXPECT_GE(fprop, 6);
  EXPECT_GE(dgrad, 4);
  EXPECT_GE(wgrad, 6);
}

TEST(DepthwiseNhwc, BlocksFitTheirMultiprocessor) {
  for (const char* file : {"edges", "layers", "networks", "reference"}) {
    for (const Shape& shape : load_shapes(file)) {
      Conv2dProblem p = channels_last(shape.problem);
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
        p.type = type;
        for (const Direction direction :
             {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
          const auto d = make_depthwise_nhwc(p, direction);
          if (!d) continue;
          EXPECT_LE(d->threads(), kSpanThreads) << shape;
          const int64_t filters = kSpanLanes * d->h.taps * d->w.taps;
          // What a block has without asking for more.
          EXPECT_LE((int64_t{kSpanStages} * d->stage + filters) * size_of(type), 48 * 1024)
              << shape << ' ' << type;
        }
      }
    }
  }
}

// Elements that are brought one by one take longer.
TEST(DepthwiseNhwc, CountsTheElementsThatItBrings) {
  const auto cycles = [](const std::string& text, Direction direction) {
    Conv2dProblem p = channels_last(parse_shape("a n2c" + text).problem);
    p.type = DataType::kBFloat16;
    return depthwise_work(p, direction, Kernel::kChannels, h200())->cycles;
  };
  for (const Direction direction : {Direction::kFprop, Direction::kWgrad}) {
    EXPECT_LT(cycles("24h64w64 k24r3s3 groups=24", direction),
              cycles("23h64w64 k23r3s3 groups=23", direction));
  }
}

TEST(DepthwiseNhwc, TakesWhatItSaysItTakes) {
  const auto takes = [](const std::string& text, Direction direction = Direction::kFprop) {
    return make_depthwise_nhwc(channels_last(parse_shape("a " + text).problem), direction)
        .has_value();
  };
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kDgrad));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2", Direction::kWgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=4"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r5s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=1,2"));
  // More tiles than the weight gradient's blocks count.
  EXPECT_TRUE(takes("n500000000c2h1w30 k2r3s3 pad=3,61,2,0 groups=2"));
  EXPECT_FALSE(takes("n600000000c2h1w60 k2r3s3 pad=3,61,2,0 groups=2"));
  // More threads than 64 bits count.
  EXPECT_FALSE(takes("n1073741824c1073741824h3w134217728 k1073741824r3s3 groups=1073741824"));
  EXPECT_FALSE(
      make_depthwise_nhwc(parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem, Direction::kFprop)
          .has_value());
}

}  // namespace
}  // namespace haloconv::testing
