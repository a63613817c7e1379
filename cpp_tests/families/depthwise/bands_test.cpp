// The index arithmetic of the depthwise kernel of band matrices, on the host: blocks are walked as
// the kernel walks them, and what comes out is held against the definition.
#include "conv2d/families/depthwise/bands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "chip/known_chips.h"
#include "conv2d/geometry/geometry.h"
#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

// A strip of a block.
struct Strip {
  int64_t image;
  int32_t first_row;  // of outputs
};

// A block's planes of one channel in one iteration, as its threads bring them.
class Planes {
 public:
  Planes(const Bands& d, const std::vector<Strip>& strips, int32_t first_column)
      : d_(d), strips_(strips), first_column_(first_column) {}

  // What an element holds: the offset of a pixel in the source, or -1 for a zero.
  int64_t at(const Strides& source, int32_t iteration, int32_t chunk, int32_t column) const {
    EXPECT_LT(chunk * 16 + column * 2, kPlaneBytes);
    const int32_t place = (chunk * 8 + column) / 2;  // a pair, of 8 channels
    EXPECT_LT(place, d_.pairs / (kBandChannels / 8));
    const int32_t strip = d_.pairs_of_row.quotient(place);
    if (strip >= std::ssize(strips_)) return -1;
    const Strip& of = strips_.at(strip);
    const int32_t h = of.first_row + iteration + d_.h.origin;
    const int32_t w =
        first_column_ + d_.w.origin + (place - strip * d_.pairs_of_row.divisor) * 2 + column % 2;
    if (h < 0 || h >= d_.h.source_size || w < 0 || w >= d_.w.source_size) return -1;
    return of.image * source.n + h * source.h + w * source.w;
  }

 private:
  const Bands& d_;
  const std::vector<Strip>& strips_;
  const int32_t first_column_;
};

Values emulate(const Conv2dProblem& problem, const Bands& d, Direction direction,
               const Values& source, const Values& filter) {
  const Gather g = make_gather(problem, direction);
  Values destination(direction == Direction::kFprop ? output_count(problem) : input_count(problem),
                     kUnwritten);
  for (int64_t block = 0; block < d.blocks(); ++block) {
    const int64_t tile = block / d.channel_tiles.divisor;
    const auto first_channel =
        static_cast<int32_t>(block % d.channel_tiles.divisor) * kBandChannels;
    const int32_t first_segment = static_cast<int32_t>(tile % d.column_tiles.divisor) * d.across;
    const int64_t first_strip = tile / d.column_tiles.divisor * d.strips_at_once;
    std::vector<Strip> strips;
    for (int64_t i = first_strip; i < std::min<int64_t>(first_strip + d.strips_at_once, d.strips);
         ++i) {
      strips.push_back(
          {i / d.image_strips, static_cast<int32_t>(i % d.image_strips) * d.strip_rows});
    }
    const Planes planes(d, strips, first_segment * kSegmentOutputs);
    for (int32_t segment = 0; segment < kBandSegments; ++segment) {
      const int32_t strip = d.segments_across.quotient(segment);
      if (strip >= std::ssize(strips)) continue;
      const int32_t across = segment - strip * d.across;
      for (int32_t i = 0; i < d.strip_rows * kSegmentOutputs; ++i) {
        const int32_t row = i / kSegmentOutputs, output = i % kSegmentOutputs;
        const int32_t h = strips.at(strip).first_row + row;
        const int32_t w = (first_segment + across) * kSegmentOutputs + output;
        if (h >= d.h.outputs || w >= d.w.outputs) continue;
        for (int32_t channel = first_channel;
             channel < std::min(first_channel + kBandChannels, d.channels.divisor); ++channel) {
          double sum = 0;
          for (int32_t r = 0; r < d.h.taps; ++r) {
            const int32_t chunk = strip * d.row_chunks + across;
            for (int32_t s = 0; s < d.w.taps; ++s) {
              const int32_t column = output + s;
              EXPECT_LT(column, kDeepPixels);
              const int64_t pixel = planes.at(g.source, row + r, chunk + column / 8, column % 8);
              if (pixel < 0) continue;
              sum +=
                  source.at(pixel + channel) * filter.at(channel * g.filter_group + d.filter_first +
                                                         r * d.h.filter_step + s * d.w.filter_step);
            }
          }
          double& to = destination.at(strips.at(strip).image * g.destination.n +
                                      h * g.destination.h + w * g.destination.w + channel);
          EXPECT_EQ(to, kUnwritten) << "written twice";
          to = sum;
        }
      }
    }
  }
  return destination;
}

template <int kRows>
std::optional<Bands> make(const Conv2dProblem& problem, Direction direction) {
  return make_bands(problem, direction, kRows, h200());
}

Conv2dProblem of_16_bits(Conv2dProblem problem) {
  problem.type = DataType::kBFloat16;
  return channels_last(problem);
}

TEST(DepthwiseBands, FollowsTheDefinition) {
  int fprop = 0, dgrad = 0;
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem p = of_16_bits(shape.problem);
    fprop += follows_definition(p, Direction::kFprop, make<1000>, emulate);
    fprop += follows_definition(p, Direction::kFprop, make<5>, emulate);
    dgrad += follows_definition(p, Direction::kDgrad, make<7>, emulate);
    dgrad += follows_definition(p, Direction::kDgrad, make<1000>, emulate);
  }
  EXPECT_GE(fprop, 12);
  EXPECT_GE(dgrad, 8);
}

TEST(DepthwiseBands, BlocksFitTheirMultiprocessor) {
  for (const char* file : {"edges", "layers", "networks", "reference"}) {
    for (const Shape& shape : load_shapes(file)) {
      const Conv2dProblem p = of_16_bits(shape.problem);
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        for (const char* name : {"NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA L4"}) {
          const Chip chip = chip_of(name);
          for (const Bands& d : all_bands(p, direction, chip, true)) {
            EXPECT_LE(d.shared_bytes(true), d.most_shared_bytes) << shape;
            EXPECT_LE(d.pairs, kBandThreads) << shape;
            EXPECT_LE(d.across * d.strips_at_once, kBandSegments) << shape;
            EXPECT_LE(d.strips_at_once * d.row_chunks, kPlaneChunks) << shape;
          }
        }
      }
    }
  }
}

TEST(DepthwiseBands, TakesWhatItSaysItTakes) {
  const auto takes = [](const std::string& text, Direction direction = Direction::kFprop,
                        DataType type = DataType::kBFloat16) {
    Conv2dProblem p = channels_last(parse_shape("a " + text).problem);
    p.type = type;
    return make<4>(p, direction).has_value();
  };
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kDgrad));
  EXPECT_TRUE(takes("n1c8h9w9 k8r5s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kFprop, DataType::kFloat16));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kFprop, DataType::kFloat32));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kWgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r4s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2"));
  EXPECT_FALSE(takes("n1c12h9w9 k12r3s3 groups=12"));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_FALSE(takes("n1073741824c1073741824h3w134217728 k1073741824r3s3 groups=1073741824"));
  Conv2dProblem p = channels_last(parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem);
  p.type = DataType::kBFloat16;
  Chip old = h200();
  old.compute_capability = 75;
  EXPECT_FALSE(make_bands(p, Direction::kFprop, 4, old).has_value());
}

// Strips that are not as high as the others, parts of rows, and blocks that are not full.
TEST(DepthwiseBands, TheTestedShapesHaveAllKindsOfBlocks) {
  std::set<bool> has_short_strips, has_parts_of_rows, has_empty_segments;
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem p = of_16_bits(shape.problem);
    for (const Bands& d : all_bands(p, Direction::kFprop, h200(), true)) {
      has_short_strips.insert(d.h.outputs % d.strip_rows != 0);
      has_parts_of_rows.insert(d.column_tiles.divisor > 1);
      has_empty_segments.insert(d.strips % d.strips_at_once != 0);
    }
  }
  EXPECT_EQ(has_short_strips.size(), 2U);
  EXPECT_EQ(has_parts_of_rows.size(), 2U);
  EXPECT_EQ(has_empty_segments.size(), 2U);
}

}  // namespace
}  // namespace haloconv::testing
