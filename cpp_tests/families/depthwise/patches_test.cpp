// The index arithmetic of the depthwise kernel of patches, on the host: blocks are walked as the
// kernel walks them, and what comes out is held against the definition.
#include "conv2d/families/depthwise/patches.h"

#include <gtest/gtest.h>

#include "conv2d/geometry/geometry.h"
#include "cpp_tests/families/depthwise/channels_last.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

// A patch as a thread has it: of the destination from (h, w) on, which may be outside; where its
// window begins in the block's, and this in the source.
struct Patch {
  int32_t image, channel, h, w, window_h, window_w, source_h, source_w;
};

template <class Body>
void for_patches(const Patches& d, Body body) {
  const int columns = patch_columns(d.w.step, d.w.upsampling);
  for (int64_t block = 0; block < d.blocks(); ++block) {
    const auto tile = static_cast<int32_t>(block / d.channel_tiles.divisor);
    const int32_t row = tile / d.w.tiles, image = row / d.h.tiles;
    const int32_t h = row % d.h.tiles * d.h.threads * kPatchRows;
    const int32_t w = tile % d.w.tiles * d.w.threads * columns;
    for (int32_t thread = 0; thread < d.threads(); ++thread) {
      const int32_t lane = thread % d.lanes, patch = thread / d.lanes;
      const int32_t down = patch / d.w.threads * kPatchRows, across = patch % d.w.threads * columns;
      for (int32_t i = 0; i < 2; ++i) {
        const auto channel =
            static_cast<int32_t>(block % d.channel_tiles.divisor) * 2 * d.lanes + lane * 2 + i;
        if (channel >= d.channels.divisor) continue;
        body(Patch{.image = image,
                   .channel = channel,
                   .h = h - d.shift_h + down,
                   .w = w - d.shift_w + across,
                   .window_h = down * d.h.step / d.h.upsampling,
                   .window_w = across * d.w.step / d.w.upsampling,
                   .source_h = h * d.h.step / d.h.upsampling + d.h.origin,
                   .source_w = w * d.w.step / d.w.upsampling + d.w.origin});
      }
    }
  }
}

// Of an axis of a patch: calls body(window coordinate, tap) for what an output meets.
template <class Body>
void for_taps(const DepthwiseAxis& axis, int32_t output, Body body) {
  for (int32_t tap = 0; tap < axis.taps; ++tap) {
    const int32_t at = output * axis.step + tap;
    if (at % axis.upsampling == 0) body(at / axis.upsampling, tap);
  }
}

Values emulate(const Conv2dProblem& problem, const Patches& d, Direction direction,
               const Values& source, const Values& filter) {
  const Gather g = make_gather(problem, direction);
  Values destination(direction == Direction::kFprop ? output_count(problem) : input_count(problem),
                     kUnwritten);
  const int32_t height = d.h.outputs - d.shift_h, width = d.w.outputs - d.shift_w;
  const int columns = patch_columns(d.w.step, d.w.upsampling);
  for_patches(d, [&](const Patch& patch) {
    const int64_t first = patch.channel * g.filter_group + d.filter_first;
    const auto product = [&](int32_t i, int32_t r, int32_t j, int32_t s) {
      EXPECT_LT(patch.window_h + i, d.h.window);
      EXPECT_LT(patch.window_w + j, d.w.window);
      const int32_t row = patch.source_h + patch.window_h + i;
      const int32_t column = patch.source_w + patch.window_w + j;
      if (row < 0 || row >= d.h.source_size || column < 0 || column >= d.w.source_size) return 0.0;
      return source.at(patch.image * g.source.n + patch.channel + row * g.source.h +
                       column * g.source.w) *
             filter.at(first + r * d.h.filter_step + s * d.w.filter_step);
    };
    for (int32_t a = 0; a < kPatchRows; ++a) {
      for (int32_t x = 0; x < columns; ++x) {
        double sum = 0;
        for_taps(d.h, a, [&](int32_t i, int32_t r) {
          for_taps(d.w, x, [&](int32_t j, int32_t s) { sum += product(i, r, j, s); });
        });
        const int32_t h = patch.h + a, w = patch.w + x;
        if (h < 0 || h >= height || w < 0 || w >= width) continue;
        double& to = destination.at(patch.image * g.destination.n + patch.channel +
                                    h * g.destination.h + w * g.destination.w);
        EXPECT_EQ(to, kUnwritten) << "written twice";
        to = sum;
      }
    }
  });
  return destination;
}

TEST(DepthwisePatches, FollowTheDefinition) {
  int fprop = 0, dgrad = 0, strided_dgrad = 0;
  for (const Shape& shape : load_shapes("edges")) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem p = channels_last(shape.problem);
      p.type = type;
      fprop += follows_definition(p, Direction::kFprop, make_patches, emulate);
      if (!follows_definition(p, Direction::kDgrad, make_patches, emulate)) continue;
      ++dgrad;
      strided_dgrad += p.stride_h == 2;
    }
  }
  EXPECT_GE(fprop, 12);
  EXPECT_GE(dgrad, 12);
  EXPECT_GE(strided_dgrad, 4);
}

TEST(DepthwisePatches, FitTheirMultiprocessor) {
  for (const char* file : {"edges", "layers", "networks", "reference"}) {
    for (const Shape& shape : load_shapes(file)) {
      Conv2dProblem p = channels_last(shape.problem);
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
        p.type = type;
        for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
          const auto d = make_patches(p, direction);
          if (!d) continue;
          EXPECT_LE(d->threads(), kPatchThreads) << shape;
          EXPECT_LE(d->shared_bytes(), 48 * 1024) << shape << ' ' << type;
        }
      }
    }
  }
}

// 16 bytes at a time where channels fill whole such, otherwise one element.
TEST(DepthwisePatches, CountTheWordsThatTheyBring) {
  const auto patches = [](const std::string& text, DataType type) {
    Conv2dProblem p = channels_last(parse_shape("a n2c" + text).problem);
    p.type = type;
    return *make_patches(p, Direction::kFprop);
  };
  const std::string even = "24h64w64 k24r3s3 groups=24", odd = "23h64w64 k23r3s3 groups=23";
  EXPECT_EQ(patches(even, DataType::kBFloat16).words, 4);
  EXPECT_EQ(patches(odd, DataType::kBFloat16).words, 32);
  EXPECT_EQ(patches(even, DataType::kFloat32).words, 4);
  EXPECT_EQ(patches(odd, DataType::kFloat32).words, 16);
  EXPECT_LT(patches(even, DataType::kBFloat16).cycles(),
            patches(odd, DataType::kBFloat16).cycles());
}

TEST(DepthwisePatches, TakeWhatTheySayTheyTake) {
  const auto takes = [](const std::string& text, Direction direction = Direction::kFprop) {
    return make_patches(channels_last(parse_shape("a " + text).problem), direction).has_value();
  };
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=3,3"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kDgrad));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=4"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r5s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=1,2"));
  // More tiles than a block's number counts.
  EXPECT_FALSE(takes("n600000000c2h1w200 k2r3s3 pad=3,61,2,0 groups=2"));
  EXPECT_FALSE(takes("n1073741824c1073741824h3w134217728 k1073741824r3s3 groups=1073741824"));
  EXPECT_FALSE(make_patches(parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem, Direction::kFprop)
                   .has_value());
}

}  // namespace
}  // namespace haloconv::testing
