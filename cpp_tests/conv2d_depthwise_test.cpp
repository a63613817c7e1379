// The depthwise kernel's index arithmetic, on the host: blocks are walked as the kernel walks them
// (which source pixel a window's element holds, which elements and weights a thread multiplies,
// where its sums go), and what comes out is held against the definition.
#include "conv2d/depthwise.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "conv2d/gather.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

constexpr double kUnwritten = 1e9;  // no sum of small integers comes near

class Emulation {
 public:
  Emulation(const Conv2dProblem& problem, const Depthwise& d, Direction direction,
            const Values& source, const Values& filter, Values& destination)
      : d_(d),
        gather_(make_gather(problem, direction)),
        source_(source),
        filter_(filter),
        destination_(destination) {}

  void run() {
    for (int64_t block = 0; block < d_.blocks; ++block) {
      const auto rows = static_cast<int32_t>(block / d_.w.tiles);
      const int32_t h = rows % d_.h.tiles * d_.h.threads * kDepthwiseRows;
      const auto w = static_cast<int32_t>(block % d_.w.tiles * d_.w.threads * kDepthwiseColumns);
      const int32_t first = rows / d_.h.tiles * d_.tile_planes;
      ASSERT_LT(first, d_.planes);
      for (int32_t i = 0; i < d_.tile_planes && first + i < d_.planes; ++i) {
        bring(first + i, h * d_.h.step + d_.h.origin, w * d_.w.step + d_.w.origin);
        for (int32_t y = 0; y < d_.h.threads * kDepthwiseRows; ++y) {
          for (int32_t x = 0; x < d_.w.threads * kDepthwiseColumns; ++x) {
            if (h + y < d_.h.outputs && w + x < d_.w.outputs) sum(first + i, h, w, y, x);
          }
        }
      }
    }
  }

 private:
  void bring(int32_t plane, int32_t h, int32_t w) {
    const int32_t image = d_.channels.quotient(plane);
    const int32_t group = d_.rows.quotient(plane % d_.channels.divisor);
    window_.assign(d_.plane_pitch, kUnwritten);
    for (int32_t y = 0; y < d_.h.window; ++y) {
      for (int32_t x = 0; x < d_.w.window; ++x) {
        const bool inside =
            h + y >= 0 && h + y < d_.h.source_size && w + x >= 0 && w + x < d_.w.source_size;
        window_.at(y * d_.pitch + x) =
            inside ? source_.at(image * gather_.source.n + group * gather_.source.c +
                                (h + y) * gather_.source.h + (w + x) * gather_.source.w)
                   : 0;
      }
    }
  }

  void sum(int32_t plane, int32_t h, int32_t w, int32_t y, int32_t x) {
    const int32_t image = d_.channels.quotient(plane), channel = plane % d_.channels.divisor;
    const int32_t group = d_.rows.quotient(channel), row = channel % d_.rows.divisor;
    double sum = 0;
    for (int32_t r = 0; r < d_.h.taps; ++r) {
      for (int32_t s = 0; s < d_.w.taps; ++s) {
        sum += window_.at((y * d_.h.step + r) * d_.pitch + x * d_.w.step + s) *
               filter_.at(group * gather_.filter_group + row * gather_.filter.n + d_.filter_first +
                          r * d_.h.filter_step + s * d_.w.filter_step);
      }
    }
    double& to = destination_.at(image * gather_.destination.n + channel * gather_.destination.c +
                                 (h + y) * gather_.destination.h + (w + x) * gather_.destination.w);
    EXPECT_EQ(to, kUnwritten) << "written twice";
    to = sum;
  }

  const Depthwise& d_;
  const Gather gather_;
  const Values &source_, &filter_;
  Values& destination_;
  Values window_;
};

// The weight gradient of all channels, by the same walk over tiles and their windows.
Values emulate_wgrad(const Conv2dProblem& p, const DepthwiseWgrad& g, const Values& grad_output,
                     const Values& input) {
  const Depthwise& d = g.d;
  const Strides &in = p.input, &out = p.output;
  Values sums(filter_count(p));
  Values seen(output_count(p));
  for (int32_t channel = 0; channel < p.k; ++channel) {
    for (int32_t tile = 0; tile < g.tiles; ++tile) {
      const int32_t rows = tile / d.w.tiles;
      const int32_t w = tile % d.w.tiles * d.w.threads * kDepthwiseColumns;
      const int32_t h = rows % d.h.tiles * d.h.threads * kDepthwiseRows;
      for (int32_t i = 0; i < d.tile_planes; ++i) {
        const int32_t image = rows / d.h.tiles * d.tile_planes + i;
        if (image >= d.planes) break;
        for (int32_t y = h; y < std::min(h + d.h.threads * kDepthwiseRows, d.h.outputs); ++y) {
          for (int32_t x = w; x < std::min(w + d.w.threads * kDepthwiseColumns, d.w.outputs); ++x) {
            const int64_t at = image * out.n + channel * out.c + y * out.h + x;
            seen.at(at) += 1;
            for (int32_t tap = 0; tap < d.h.taps * d.w.taps; ++tap) {
              const int32_t r = tap / d.w.taps, s = tap % d.w.taps;
              const int32_t row = y * d.h.step + d.h.origin + r;
              const int32_t column = x * d.w.step + d.w.origin + s;
              EXPECT_LT(row - (h * d.h.step + d.h.origin), d.h.window);
              EXPECT_LT(column - (w * d.w.step + d.w.origin), d.pitch);
              if (row < 0 || row >= d.h.source_size || column < 0 || column >= d.w.source_size) {
                continue;
              }
              sums.at(channel * d.h.taps * d.w.taps + tap) +=
                  grad_output.at(at) *
                  input.at(image * in.n + d.rows.quotient(channel) * in.c + row * in.h + column);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(seen, Values(seen.size(), 1)) << "pixels are summed more or less than once";
  return sums;
}

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  for (const char* file : {"edges", "layers", "networks", "reference"}) {
    for (Shape& shape : load_shapes(file)) shapes.push_back(std::move(shape));
  }
  return shapes;
}

TEST(Depthwise, FollowsTheDefinition) {
  int fprop = 0, dgrad = 0, wgrad = 0;
  for (const Shape& shape : load_shapes("edges")) {
    const Conv2dProblem& p = shape.problem;
    const Values input = small_integers(input_count(p), 1),
                 filter = small_integers(filter_count(p), 2);
    const Values grad_output = small_integers(output_count(p), 3);
    if (const auto d = make_depthwise(p, Direction::kFprop)) {
      Values output(output_count(p), kUnwritten);
      Emulation(p, *d, Direction::kFprop, input, filter, output).run();
      EXPECT_EQ(output, reference_fprop(p, input, filter, {})) << shape;
      ++fprop;
    }
    if (const auto d = make_depthwise(p, Direction::kDgrad)) {
      Values grad_input(input_count(p), kUnwritten);
      Emulation(p, *d, Direction::kDgrad, grad_output, filter, grad_input).run();
      EXPECT_EQ(grad_input, reference_dgrad(p, grad_output, filter)) << shape;
      ++dgrad;
    }
    if (const auto g = make_depthwise_wgrad(p)) {
      EXPECT_EQ(emulate_wgrad(p, *g, grad_output, input), reference_wgrad(p, grad_output, input))
          << shape;
      ++wgrad;
    }
  }
  EXPECT_GE(fprop, 6);
  EXPECT_GE(dgrad, 3);
  EXPECT_GE(wgrad, 3);
}

TEST(Depthwise, BlocksFitTheirMultiprocessor) {
  for (const Shape& shape : all_shapes()) {
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      const auto d = make_depthwise(shape.problem, direction);
      if (!d) continue;
      EXPECT_LE(d->shared_bytes, 48 * 1024) << shape;  // what a block has without asking for more
      EXPECT_LE(d->threads, kDepthwiseThreads) << shape;
      EXPECT_GE(d->threads, d->w.threads * d->h.threads * d->tile_planes) << shape;
      EXPECT_LE(d->row_loaders * d->plane_loaders * kDepthwiseLanes, d->threads) << shape;
      // A thread reads its part of a row by fours, from 16 bytes on.
      EXPECT_EQ(d->pitch % 4, 0) << shape;
      EXPECT_EQ(d->plane_pitch % 4, 0) << shape;
      const int32_t part = (kDepthwiseColumns - 1) * d->w.step + d->w.taps;
      EXPECT_LE((d->w.threads - 1) * kDepthwiseColumns * d->w.step + (part + 3) / 4 * 4, d->pitch);
      EXPECT_LE(d->h.window * d->pitch, d->plane_pitch) << shape;
      EXPECT_LE(int64_t{4} * (d->filters_at + d->tile_planes * d->h.taps * d->filter_pitch),
                d->shared_bytes)
          << shape;
    }
  }
}

TEST(Depthwise, BlocksOfTheWeightGradientFitToo) {
  for (const Shape& shape : all_shapes()) {
    const auto g = make_depthwise_wgrad(shape.problem);
    if (!g) continue;
    const Depthwise& d = g->d;
    EXPECT_LE(d.shared_bytes, 48 * 1024) << shape;
    EXPECT_GE(d.threads, d.w.threads * d.h.threads * d.tile_planes) << shape;
    EXPECT_LE(d.threads, kDepthwiseThreads) << shape;
    for (const int32_t at :
         {d.pitch, d.plane_pitch, g->grad_pitch, g->grad_plane_pitch, g->stage}) {
      EXPECT_EQ(at % 4, 0) << shape;
    }
    EXPECT_LE(d.h.window * d.pitch, d.plane_pitch) << shape;
    EXPECT_LE(d.w.threads * kDepthwiseColumns, g->grad_pitch) << shape;
    EXPECT_LE(d.h.threads * kDepthwiseRows * g->grad_pitch, g->grad_plane_pitch) << shape;
    // Each warp's sums lie there in the end.
    EXPECT_LE(d.threads / 32 * (d.h.taps * d.w.taps + 1) * 4, d.shared_bytes) << shape;
  }
}

TEST(Depthwise, TakesWhatItSaysItTakes) {
  const auto takes = [](const std::string& text, Direction direction = Direction::kFprop) {
    return make_depthwise(parse_shape("a " + text).problem, direction).has_value();
  };
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8", Direction::kWgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k16r3s3 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=4"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s4 groups=8"));
  EXPECT_FALSE(takes("n1c8h40w9 k8r17s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=2,1"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=1,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,3"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=4,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2", Direction::kDgrad));
  // More channels, or more tiles in wgrad, than the kernels count.
  EXPECT_TRUE(takes("n1c65536h1w1 k65536r3s3 pad=1,1,1,1 groups=65536", Direction::kDgrad));
  for (const char* c : {"4295032832", "2147483648", "4294967296"}) {
    const std::string shape = "h1w1 k65536r3s3 pad=1,1,1,1 groups=65536";
    EXPECT_FALSE(takes(std::string("n1c") + c + shape, Direction::kDgrad)) << c;
  }
  const auto takes_wgrad = [](const std::string& text) {
    return make_depthwise_wgrad(parse_shape("a " + text).problem).has_value();
  };
  EXPECT_TRUE(takes_wgrad("n1c8h9w9 k16r3s3 groups=8"));
  EXPECT_FALSE(takes_wgrad("n1c8h9w9 k8r5s3 groups=8"));
  EXPECT_FALSE(takes_wgrad("n1c8h9w9 k8r3s3 groups=8 stride=1,2"));
  EXPECT_TRUE(takes_wgrad("n500000000c1h1w62 k1r3s3 pad=3,61,2,0"));
  EXPECT_FALSE(takes_wgrad("n1073741819c1h1w62 k1r3s3 pad=3,61,2,0"));
  Conv2dProblem p = parse_shape("a n1c8h9w9 k8r3s3 groups=8").problem;
  p.type = DataType::kFloat64;
  EXPECT_FALSE(make_depthwise(p, Direction::kFprop).has_value());
}

}  // namespace
}  // namespace haloconv::testing
