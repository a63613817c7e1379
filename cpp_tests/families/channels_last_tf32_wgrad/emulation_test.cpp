// The weight gradient of float32 with channels innermost, followed on the host: boxes lie in shared
// memory as the copy engine puts them, grad_output is transposed by the kernel's items, threads
// read their operands where the kernel's do, and what comes out is held against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "chip/known_chips.h"
#include "conv2d/families/channels_last_tf32_wgrad/plan.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"
#include "cpp_tests/shared_memory_emulation.h"

namespace haloconv::testing {
namespace {

using namespace sm90::channels_last_tf32_wgrad;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
// Stands for the zeros of pixels that grad_output has not.
constexpr double kBeyond = std::numeric_limits<double>::infinity();

struct Gradients {
  Values filter, bias;
};

class Emulation {
 public:
  Emulation(const Conv2dProblem& p, const Plan& plan, const Values& grad_output,
            const Values& input)
      : p_(p),
        plan_(plan),
        args_(plan.args),
        tile_(plan.tile),
        grad_output_(grad_output),
        input_(input) {}

  Gradients run() {
    Gradients result{Values(filter_count(p_), kNothing), Values(p_.k, 0)};
    for (int32_t index = 0; index < args_.tiles; ++index) {
      const TilePosition at(args_, tile_, index);
      sums_.assign(size_t(tile_.row_blocks()) * 64 * tile_.columns(), 0);
      bias_.assign(tile_.columns(), 0);
      for (int32_t split = 0; split < args_.splits; ++split) {
        EXPECT_LT(args_.first_patch(split), args_.first_patch(split + 1)) << "an empty split";
        for (int32_t i = args_.first_patch(split); i < args_.first_patch(split + 1); ++i) {
          copy_patch(at, i);
          transpose();
          multiply(at, i);
          if (::testing::Test::HasFailure()) return result;
        }
      }
      store(at, result);
    }
    return result;
  }

 private:
  double grad_output(int64_t pixel_n, int64_t k, int64_t p, int64_t q) const {
    if (p < 0 || p >= p_.p() || q < 0 || q >= p_.q() || pixel_n >= p_.n) return kBeyond;
    if (k >= p_.k) return 0;
    return grad_output_.at(((pixel_n * p_.k + k) * p_.p() + p) * p_.q() + q);
  }
  double input(int64_t n, int64_t c, int64_t h, int64_t w) const {
    if (c >= p_.c || h < 0 || h >= p_.h || w < 0 || w >= p_.w || n >= p_.n) return 0;
    return input_.at(((n * p_.c + c) * p_.h + h) * p_.w + w);
  }
  double& at(uint32_t address) { return memory_.at(address / 4); }

  // The stage is at 0; behind it, the transposed buffer.
  void copy_patch(const TilePosition& tile, int32_t patch) {
    memory_.assign((args_.stage_bytes(tile_) + args_.transposed_bytes(tile_)) / 4, kNothing);
    const int32_t strip = patch % args_.strips.divisor;
    const int32_t band = patch / args_.strips.divisor % args_.bands.divisor;
    const int32_t image = patch / args_.strips.divisor / args_.bands.divisor;
    const int64_t q = strip * args_.columns, p = band * args_.rows;
    uint32_t to = 0;
    for (int32_t box = 0; box < tile_.columns() / 32; ++box, to += args_.grad_output_bytes) {
      for (int32_t i = 0; i < args_.rows * args_.columns * args_.images * 32; ++i) {
        const int32_t n = image * args_.images + i / 32 % args_.images;
        const int32_t pixel = i / 32 / args_.images;
        const int64_t k = tile.k + box * 32 + i % 32;
        const int64_t column = q + pixel % args_.columns, row = p + pixel / args_.columns;
        at(to + swizzled(i * 4, 128)) =
            plan_.flat ? flat_grad_output(k, column) : grad_output(n, k, row, column);
      }
    }
    const int64_t w = q * p_.stride_w - p_.pad_left + tile.first_s(args_) * p_.dilation_w;
    const int64_t h = p * p_.stride_h - p_.pad_top + tile.first_r(args_) * p_.dilation_h;
    for (int32_t box = 0; box < 2 * args_.tile_chunks; ++box, to += args_.input_bytes) {
      for (int32_t i = 0; i < args_.box_w * plan_.box_h * args_.images * 32; ++i) {
        const int32_t n = image * args_.images + i / 32 % args_.images;
        const int32_t pixel = i / 32 / args_.images;
        const int64_t c = tile.chunk * 64 + box * 32 + i % 32;
        const int64_t column = w + pixel % args_.box_w * p_.stride_w;
        const int64_t row = h + pixel / args_.box_w * p_.stride_h;
        at(to + swizzled(i * 4, 128)) =
            plan_.flat ? flat_input(c, column) : input(n, c, row, column);
      }
    }
    EXPECT_EQ(to, static_cast<uint32_t>(args_.stage_bytes(tile_)));
  }
  double flat_grad_output(int64_t k, int64_t pixel) const {
    const int64_t plane = p_.p() * p_.q();
    return grad_output(pixel / plane, k, pixel % plane / p_.q(), pixel % p_.q());
  }
  double flat_input(int64_t c, int64_t pixel) const {
    const int64_t plane = p_.h * p_.w;
    return input(pixel / plane, c, pixel % plane / p_.w, pixel % p_.w);
  }

  void transpose() {
    const int32_t columns = tile_.columns();
    for (int32_t thread = 0; thread < tile_.transposing_threads(); ++thread) {
      const TransposePlace place(tile_, thread);
      for (int32_t block = place.block; block * kBlockGroups + place.group < args_.groups;
           block += place.blocks) {
        const uint32_t from = place.box * args_.grad_output_bytes + block * kBlockGroups * 1024;
        const uint32_t to =
            args_.stage_bytes(tile_) + (block * columns + place.box * 32) * kPixelBytes;
        for (int32_t i = 0; i < 4; ++i) {
          for (int32_t channel = 0; channel < 4; ++channel) {
            const double value = at(from + place.from(i) + channel * 4);
            at(to + place.to(channel) + i * 4) = value;
            if (value != kBeyond) bias_.at(place.box * 32 + place.unit * 4 + channel) += value;
          }
        }
      }
    }
  }

  void multiply(const TilePosition& tile, int32_t patch) {
    const int32_t columns = tile_.columns();
    const sm90::PatchPlace place(args_, patch);
    std::vector<double> a(size_t(64) * 8), b(size_t(8) * columns);
    for (int32_t group = 0; group < args_.groups_of(place); ++group) {
      for (int32_t n = 0; n < columns; ++n) {
        const uint32_t start = args_.stage_bytes(tile_) + transposed_units(columns, group) * 16 +
                               n / 64 * 64 * kPixelBytes;
        const uint64_t descriptor =
            (start >> 4) | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
        for (int32_t k = 0; k < 8; ++k) {
          b[k * columns + n] = at(emulated_address(descriptor, true, 4, n % 64, k));
        }
      }
      for (int32_t i = 0; i < tile_.row_blocks(); ++i) {
        const RowBlock block(args_, tile, i);
        if (!block.exists) continue;
        const uint32_t boxes =
            columns / 32 * args_.grad_output_bytes + block.chunk * 2 * args_.input_bytes;
        const int32_t pixel = block.first_pixel(args_, tile) + first_pixel_of(args_, group);
        for (int32_t thread = 0; thread < 128; ++thread) {
          const int32_t warp = thread / 32, lane = thread % 32, t = lane % 4;
          const int32_t row = warp * 16 + lane / 4;
          for (int32_t odd = 0; odd < 2; ++odd) {
            const uint32_t from = boxes + input_bytes_at(args_, warp, lane, pixel + t * 2 + odd);
            const bool loads = t * 2 + odd < args_.pixels_of(place);
            a[row * 8 + t + odd * 4] = loads ? at(from) : 0;
            a[(row + 8) * 8 + t + odd * 4] = loads ? at(from + 4) : 0;
          }
        }
        for (int32_t row = 0; row < 64; ++row) {
          double* const to = &sums_[(size_t(i) * 64 + row) * columns];
          for (int32_t k = 0; k < 8; ++k) {
            const double factor = a[row * 8 + k];
            for (int32_t n = 0; n < columns; ++n) {
              const double other = b[k * columns + n];
              if (other == kBeyond) {
                EXPECT_EQ(factor, 0) << "a zero that is not grad_output's meets a pixel";
              } else {
                to[n] += factor * other;
              }
            }
          }
        }
      }
    }
  }

  void store(const TilePosition& tile, Gradients& result) const {
    for (int32_t thread = 0; thread < tile_.math_threads(); ++thread) {
      for (int32_t quad = 0; quad < tile_.quads(); ++quad) {
        const QuadPlace first(args_, tile_, tile, thread, quad);
        if (!first.exists) continue;
        const int32_t block = thread / 128 * tile_.blocks + quad / (tile_.instructions * 8);
        const int32_t in_block = quad % (tile_.instructions * 8), lane = thread % 32;
        for (int32_t i = 0; i < 4; ++i) {
          // As the instruction leaves its sums.
          const int32_t row = thread % 128 / 32 * 16 + lane / 4 + i / 2 * 8;
          const int32_t column = in_block / 8 * 64 + in_block % 8 * 8 + lane % 4 * 2 + i % 2;
          const int64_t k = first.k + i % 2, c = first.c + i / 2;
          if (k >= p_.k || c >= p_.c) continue;
          double& to = result.filter.at(((k * p_.c + c) * p_.r + first.r) * p_.s + first.s);
          EXPECT_TRUE(std::isnan(to)) << "written twice";
          to = sums_[(size_t(block) * 64 + row) * tile_.columns() + column];
        }
      }
    }
    if (!tile.is_first_of_rows()) return;
    for (int32_t k = tile.k; k < std::min<int64_t>(p_.k, tile.k + tile_.columns()); ++k) {
      result.bias.at(k) = bias_.at(k - tile.k);
    }
  }

  const Conv2dProblem& p_;
  const Plan& plan_;
  const Arguments& args_;
  const Tile& tile_;
  const Values &grad_output_, &input_;
  std::vector<double> memory_, sums_, bias_;
};

Conv2dProblem problem_of(const Shape& shape) {
  Conv2dProblem p = shape.problem;
  p.type = DataType::kFloat32;
  p.set_dense_strides(true);
  return p;
}

class ChannelsLastTf32WgradEmulation : public ::testing::TestWithParam<Shape> {};

TEST_P(ChannelsLastTf32WgradEmulation, IsExactOnSmallIntegers) {
  const Conv2dProblem p = problem_of(GetParam());
  const Values input = small_integers(input_count(p), 1);
  const Values grad_output = small_integers(output_count(p), 4);
  const Values expected = reference_wgrad(p, grad_output, input);
  const Values expected_bias = reference_bias_grad(p, grad_output);
  ASSERT_EQ(declines(p, true, h200()), "");
  const std::vector<Plan> plans = make_plans(p, h200(), true, true);
  EXPECT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    const std::string text = text_of(p, plan);
    const Gradients result = Emulation(p, plan, grad_output, input).run();
    ASSERT_EQ(result.filter, expected) << text;
    ASSERT_EQ(result.bias, expected_bias) << text;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLastTf32WgradEmulation,
                         ::testing::ValuesIn(load_shapes("eights")), name_of_shape);
INSTANTIATE_TEST_SUITE_P(Fours, ChannelsLastTf32WgradEmulation,
                         ::testing::Values(parse_shape("fours n9c24h5w12 k72r3s3 pad=1,1,1,1")),
                         name_of_shape);

// Rows of 7, 14 and 28 pixels are no whole eights; images are.
TEST(ChannelsLastTf32WgradPlan, PutsImagesSideBySideWhereRowsAreNoEights) {
  for (const char* text : {"a n64c256h14w14 k256r3s3 pad=1,1,1,1", "a n64c128h28w28 k128r3s3"}) {
    EXPECT_TRUE(
        make_plans(problem_of(parse_shape(text)), h200(), true).front().args.images_innermost)
        << text;
  }
}

// 7 pixels are two strips of four images side by side, the last of three.
TEST(ChannelsLastTf32WgradPlan, LeavesOutColumnsBeyondImages) {
  const Conv2dProblem problem = problem_of(parse_shape("a n64c512h7w7 k512r3s3 pad=1,1,1,1"));
  int images = 0;
  for (const Plan& plan : make_plans(problem, h200(), true, true)) {
    if (!plan.args.images_innermost || plan.args.columns != 4) continue;
    EXPECT_EQ(plan.args.last_groups * 4, plan.args.groups * 3);
    ++images;
  }
  EXPECT_GT(images, 0);
}

// 14 pixels are one eight and six more, and 14 rows are a patch of eight and one of six.
TEST(ChannelsLastTf32WgradPlan, LeavesOutWhatIsBeyondRowsOfOneImage) {
  const Arguments args =
      make_plans(problem_of(parse_shape("a n1c256h14w14 k256r3s3 pad=1,1,1,1")), h200(), true)
          .front()
          .args;
  EXPECT_FALSE(args.images_innermost);
  EXPECT_EQ(args.last_columns, 6);
  EXPECT_EQ(args.groups, 8);
  EXPECT_EQ(args.last_groups, 6);
}

TEST(ChannelsLastTf32WgradPlan, FitsTheChip) {
  int plans = 0;
  for (const char* file : {"reference", "networks", "layers", "eights", "edges"}) {
    for (const Shape& shape : load_shapes(file)) {
      const Conv2dProblem p = problem_of(shape);
      if (!declines(p, true, h200()).empty()) continue;
      for (const Plan& plan : make_plans(p, h200(), true, true)) {
        ++plans;
        const std::string text = text_of(shape, plan);
        EXPECT_LE(plan.shared_bytes, 226 * 1024) << text;
        EXPECT_GT(plan.args.stages, kTransposed) << text << ": a stage is on the way";
        EXPECT_LE(plan.args.splits, plan.args.patches) << text;
        EXPECT_EQ(plan.args.groups % 2, 0) << text << ": two steps at a time";
        EXPECT_LE(plan.args.copied_bytes, plan.args.stage_bytes(plan.tile)) << text;
        EXPECT_GT(plan.estimated_ms, 0) << text;
      }
    }
  }
  EXPECT_GT(plans, 200);
}

TEST(ChannelsLastTf32WgradPlan, SaysWhyItDeclines) {
  const auto reason = [](const Conv2dProblem& p, bool tf32 = true) {
    return declines(p, tf32, h200());
  };
  const Conv2dProblem taken = problem_of(parse_shape("a n2c64h16w16 k64r3s3"));
  EXPECT_EQ(reason(taken), "");
  EXPECT_EQ(reason(taken, false), "TF32 is not allowed");
  EXPECT_EQ(reason(problem_of(parse_shape("a n2c62h16w16 k64r3s3"))),
            "input or output channels are no multiple of 4");
  EXPECT_EQ(reason(problem_of(parse_shape("a n2c64h16w16 k64r3s3 groups=2"))), "it has groups");
  Conv2dProblem p = taken;
  p.type = DataType::kFloat16;
  EXPECT_EQ(reason(p), "the element type is not float32");
  p = taken;
  p.set_dense_strides(false);
  EXPECT_EQ(reason(p), "channels are not innermost");
  p = taken;
  p.input.n = 0;
  EXPECT_EQ(reason(p), "a tensor's strides are no positive multiples of 4");
}

}  // namespace
}  // namespace haloconv::testing
