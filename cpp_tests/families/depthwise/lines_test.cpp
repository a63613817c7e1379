// The index arithmetic of the depthwise kernels along lines, on the host: blocks are walked as the
// kernels walk them, and what comes out is held against the definition.
#include "conv2d/families/depthwise/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "conv2d/choice.h"
#include "conv2d/geometry/geometry.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

constexpr double kUnwritten = 1e9;  // no sum of small integers comes near

// A tensor's elements, the first of which is the `phase`-th of 16 bytes.
struct Memory {
  const Values& values;
  int64_t phase;

  // Of the vector that holds an element, which one it is.
  int32_t phase_of(int64_t offset, int32_t elements) const {
    return static_cast<int32_t>((phase + offset) % elements);
  }
};

// One element of a line, where a thread finds it in its vectors: position + i, i less than `count`.
double read(const Memory& memory, int64_t line, int32_t size, int32_t position, int32_t i,
            int32_t elements) {
  const int32_t shift = (memory.phase_of(line, elements) + position) & (elements - 1);
  const int32_t first = position - shift, at = first + (shift + i) / elements * elements;
  EXPECT_EQ((memory.phase + line + at) % elements, 0) << "a vector is not aligned";
  const int32_t where = at + (shift + i) % elements;
  if (at <= -elements || at >= size || where < 0 || where >= size) return 0;
  return memory.values.at(line + where);
}

Values emulate(const Conv2dProblem& p, const Lines& d, Direction direction, const Memory& source,
               const Values& filter, int64_t destination_count) {
  const Gather g = make_gather(p, direction);
  const int32_t elements = line_elements(size_of(p.type)),
                vectors = line_vectors(d.tap_block, size_of(p.type));
  Values destination(destination_count, kUnwritten);
  for (int64_t index = 0; index < d.blocks * d.threads; ++index) {
    const auto block = static_cast<int32_t>(index / d.threads);
    const auto thread = static_cast<int32_t>(index % d.threads);
    const int32_t lines = d.line_tiles.quotient(block);
    const int32_t of_block = d.line_threads.quotient(thread);
    const int32_t line = lines * d.block_lines + of_block;
    if (of_block >= d.block_lines || line >= d.lines) continue;
    const int32_t vector =
        (block - lines * d.line_tiles.divisor) * d.line_threads.divisor * vectors +
        thread % d.line_threads.divisor;
    const int32_t image = d.channels.quotient(line), channel = line % d.channels.divisor;
    const int32_t group = d.rows.quotient(channel);
    const int64_t from = image * g.source.n + group * g.source.c;
    const int64_t to = image * g.destination.n + channel * g.destination.c;
    const int64_t weights = group * g.filter_group + channel % d.rows.divisor * g.filter.n;
    for (int32_t u = 0; u < vectors; ++u) {
      const auto first =
          static_cast<int32_t>((vector + u * d.line_threads.divisor) * elements - to % elements);
      for (int32_t x = 0; x < elements; ++x) {
        if (first + x < 0 || first + x >= d.outputs) continue;
        double sum = 0;
        for (int32_t t = 0; t < d.taps; ++t) {
          const int32_t block_tap = t / d.tap_block * d.tap_block;
          sum += read(source, from, d.source_size, first + d.origin + block_tap * d.dilation,
                      x + t - block_tap, elements) *
                 filter.at(weights + d.filter_first + t * d.filter_step);
        }
        double& result = destination.at(to + first + x);
        EXPECT_EQ(result, kUnwritten) << "written twice";
        result = sum;
      }
    }
  }
  return destination;
}

Values emulate_wgrad(const Conv2dProblem& p, const LinesWgrad& d, const Memory& grad_output,
                     const Memory& input) {
  const int32_t elements = line_elements(size_of(p.type));
  const bool is_aligned =
      lines_are_aligned(p.output, size_of(p.type)) && grad_output.phase % elements == 0;
  const int32_t vectors = vectors_of_line(d.outputs, size_of(p.type), is_aligned);
  EXPECT_LE(int64_t{d.images} * vectors, int64_t{d.tiles} * d.tile_vectors);
  Values sums(filter_count(p)), seen(output_count(p));
  for (int32_t channel = 0; channel < p.k; ++channel) {
    for (int32_t index = 0; index < d.images * vectors; ++index) {
      const int32_t image = index / vectors;
      const int64_t line = image * p.output.n + channel * p.output.c;
      const int64_t from = image * p.input.n + d.rows.quotient(channel) * p.input.c;
      const int32_t first = index % vectors * elements - grad_output.phase_of(line, elements);
      for (int32_t x = 0; x < elements; ++x) {
        if (first + x < 0 || first + x >= d.outputs) continue;
        seen.at(line + first + x) += 1;
        for (int32_t t = 0; t < d.taps; ++t) {
          const int32_t first_tap = t / d.tap_block * d.tap_block;
          sums.at(channel * d.taps + t) +=
              grad_output.values.at(line + first + x) * read(input, from, d.source_size,
                                                             first + d.origin + first_tap,
                                                             x + t - first_tap, elements);
        }
      }
    }
  }
  EXPECT_EQ(seen, Values(seen.size(), 1)) << "gradients are summed more or less than once";
  return sums;
}

class DepthwiseLinesIn : public ::testing::TestWithParam<DataType> {};

TEST_P(DepthwiseLinesIn, FollowTheDefinition) {
  std::set<int32_t> tap_blocks;
  int wgrad = 0;
  int64_t phase = 0;
  for (Shape shape : load_shapes("edges")) {
    Conv2dProblem& p = shape.problem;
    p.type = GetParam();
    const int32_t elements = line_elements(size_of(p.type));
    phase = (phase + 3) % elements;
    const Values inputs = small_integers(input_count(p), 1);
    const Values filter = small_integers(filter_count(p), 2);
    const Values grads = small_integers(output_count(p), 3);
    const Memory input = {inputs, phase}, grad_output = {grads, (phase + 5) % elements};
    if (const auto d = make_lines(p, Direction::kFprop)) {
      EXPECT_EQ(emulate(p, *d, Direction::kFprop, input, filter, output_count(p)),
                reference_fprop(p, inputs, filter, {}))
          << shape;
      tap_blocks.insert(d->tap_block);
    }
    if (const auto d = make_lines(p, Direction::kDgrad)) {
      EXPECT_EQ(emulate(p, *d, Direction::kDgrad, grad_output, filter, input_count(p)),
                reference_dgrad(p, grads, filter))
          << shape;
    }
    if (const auto d = make_lines_wgrad(p)) {
      EXPECT_EQ(emulate_wgrad(p, *d, grad_output, input), reference_wgrad(p, grads, inputs))
          << shape;
      ++wgrad;
    }
  }
  EXPECT_EQ(tap_blocks, (std::set<int32_t>{1, 4, 8}));
  EXPECT_GE(wgrad, 10);
}

INSTANTIATE_TEST_SUITE_P(Types, DepthwiseLinesIn,
                         ::testing::Values(DataType::kFloat32, DataType::kBFloat16));

TEST(DepthwiseLines, BlocksAreNoLargerThanTheyMayBe) {
  for (const char* file : {"edges", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(file)) {
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        const auto d = make_lines(shape.problem, direction);
        if (!d) continue;
        EXPECT_LE(d->threads, kLineThreads) << shape;
        EXPECT_GE(d->threads, d->block_lines * d->line_threads.divisor) << shape;
        EXPECT_GE(d->blocks * d->block_lines, int64_t{d->lines} * d->line_tiles.divisor) << shape;
      }
      const auto g = make_lines_wgrad(shape.problem);
      EXPECT_LE(g ? g->threads : 0, kLineThreads) << shape;
    }
  }
}

// They are expected to be the fastest of the family where they take a problem.
TEST(DepthwiseLines, AreTheFirstChoiceOfOneDimensionalLayers) {
  int layers = 0;
  for (Shape shape : load_shapes("one_dimensional")) {
    if (!make_lines(shape.problem, Direction::kFprop)) continue;
    ++layers;
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
      shape.problem.type = type;
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad, Direction::kWgrad}) {
        const auto chosen = choose({.problem = shape.problem, .direction = direction}).candidates;
        ASSERT_FALSE(chosen.empty());
        ASSERT_NE(chosen.front().plan, nullptr) << shape;
        EXPECT_NE(chosen.front().plan->text().find("kernel=depthwise_lines"), std::string::npos)
            << shape << ": " << chosen.front().plan->text();
      }
    }
  }
  EXPECT_GE(layers, 6);
}

TEST(DepthwiseLines, TakeWhatTheySayTheyTake) {
  const auto takes = [](const std::string& text, Direction direction = Direction::kFprop) {
    const Conv2dProblem p = parse_shape("a " + text).problem;
    return direction == Direction::kWgrad ? make_lines_wgrad(p).has_value()
                                          : make_lines(p, direction).has_value();
  };
  EXPECT_TRUE(takes("n1c8h1w9 k8r1s4 groups=8"));
  EXPECT_TRUE(takes("n1c8h1w9 k16r1s4 groups=8"));
  EXPECT_TRUE(takes("n1c8h1w9 k16r1s4 groups=8", Direction::kWgrad));
  EXPECT_FALSE(takes("n1c8h1w9 k16r1s4 groups=8", Direction::kDgrad));
  EXPECT_TRUE(takes("n1c16h1w9 k8r1s4 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c16h1w9 k8r1s4 groups=8"));
  EXPECT_TRUE(takes("n1c8h1w99 k8r1s64 groups=8"));
  EXPECT_FALSE(takes("n1c8h1w99 k8r1s65 groups=8"));
  EXPECT_FALSE(takes("n1c8h2w9 k8r1s4 groups=8"));
  EXPECT_FALSE(takes("n1c8h1w9 k8r3s4 pad=1,1,0,0 groups=8"));
  EXPECT_FALSE(takes("n1c8h1w9 k8r1s4 pad=1,0,0,0 groups=8"));
  EXPECT_FALSE(takes("n1c8h1w9 k8r1s4 stride=1,2 groups=8"));
  EXPECT_TRUE(takes("n1c8h1w9 k8r1s3 dil=1,2 groups=8"));
  EXPECT_TRUE(takes("n1c8h1w9 k8r1s3 dil=1,2 groups=8", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h1w9 k8r1s3 dil=1,2 groups=8", Direction::kWgrad));
  EXPECT_FALSE(takes("n1073741824c2h1w9 k2r1s3 groups=2"));                             // lines
  EXPECT_FALSE(takes("n65536c2h1w65536 k2r1s3 groups=2", Direction::kWgrad));           // vectors
  EXPECT_FALSE(takes("n1c4295032832h1w3 k65536r1s3 groups=65536", Direction::kDgrad));  // channels
  Conv2dProblem p = parse_shape("a n1c8h1w9 k8r1s4 groups=8").problem;
  p.input.w = 2;
  EXPECT_FALSE(make_lines(p, Direction::kFprop).has_value());
  p.set_dense_strides(true);
  EXPECT_FALSE(make_lines(p, Direction::kFprop).has_value());
}

}  // namespace
}  // namespace haloconv::testing
