// The depthwise kernel's index arithmetic, on the host: blocks are walked as the kernel walks them
// (which source pixel a window's element holds, which elements and weights a thread multiplies,
// where its sums go), and what comes out is held against the definition.
#include "conv2d/families/depthwise/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "conv2d/geometry/geometry.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using namespace depthwise;

constexpr double kUnwritten = 1e9;  // no sum of small integers comes near
constexpr double kOutside = 1e7;    // what a cell beside the planes may hold: zero is read

// A tensor's elements, the first of which is the `phase`-th of a word of memory.
struct Memory {
  const Values& values;
  int64_t phase;

  int64_t phase_of(int64_t offset) const {
    return ((phase + offset) % kDepthwiseWord + kDepthwiseWord) % kDepthwiseWord;
  }
};

// A rectangle of planes as depthwise_tile.cuh has it.
struct Rectangle {
  int32_t h, w, height, width, rows, columns;
  int64_t step;

  bool has(int32_t row, int32_t column) const {
    return h + row >= 0 && h + row < height && w + column >= 0 && w + column < width;
  }
};

// Rectangles in shared memory.
class SharedCells {
 public:
  SharedCells(const DepthwiseCells& cells, const Rectangle& r, int32_t planes, bool is_packed)
      : cells_(cells),
        r_(r),
        is_packed_(is_packed),
        shared_(cells.before + int64_t{planes} * cells.plane_pitch + cells.after, kOutside) {}

  // The i-th plane, which begins at an element of `memory`.
  void bring(int32_t i, const Memory& memory, int64_t plane) {
    if (!is_packed_) {
      for (int32_t row = 0; row < r_.rows; ++row) {
        for (int32_t column = 0; column < cells_.pitch; ++column) {
          shared_.at(at(i, memory, plane, row, column)) =
              r_.has(row, column) ? memory.values.at(offset(plane, row, column)) : 0;
        }
      }
      return;
    }
    const int64_t slot = cells_.before + int64_t{i} * cells_.plane_pitch;
    if (cells_.is_dense) {
      const int32_t top = std::max(r_.h, 0), rows = std::min(r_.h + r_.rows, r_.height) - top;
      if (rows > 0) bring_run(memory, plane + top * r_.step, 0, rows * r_.width, slot);
      return;
    }
    const int32_t left = std::max(-r_.w, 0), right = std::min(r_.width - r_.w, r_.columns);
    for (int32_t row = 0; row < r_.rows; ++row) {
      if (left >= right || r_.h + row < 0 || r_.h + row >= r_.height) continue;
      EXPECT_LE(memory.phase_of(offset(plane, row, 0)) + right,
                cells_.words.divisor * kDepthwiseWord);
      bring_run(memory, offset(plane, row, 0), left, right, slot + row * cells_.pitch);
    }
  }

  // What a thread finds at a cell of the rectangle; of 16 bits it reads up to two further ones.
  double read(int32_t i, const Memory& memory, int64_t plane, int32_t row, int32_t column) const {
    const int64_t where = at(i, memory, plane, row, column);
    if (!is_packed_) return shared_.at(where);
    EXPECT_GE(where, 0);
    EXPECT_LT(where + 2, static_cast<int64_t>(shared_.size()));
    return r_.has(row, column) ? shared_.at(where) : 0;
  }

 private:
  int64_t offset(int64_t plane, int32_t row, int32_t column) const {
    return plane + (r_.h + row) * r_.step + r_.w + column;
  }

  // The words that hold what exists from the run's first-th element on to before its last-th.
  void bring_run(const Memory& memory, int64_t from, int64_t first, int64_t last, int64_t to) {
    const int64_t slot = (to - cells_.before) / cells_.plane_pitch;
    const int64_t phase = memory.phase_of(from);
    for (int64_t word = 0; word < phase + last; word += kDepthwiseWord) {
      if (word + kDepthwiseWord <= phase + first) continue;
      for (int64_t j = word; j < word + kDepthwiseWord; ++j) {
        const int64_t index = from + j - phase;
        EXPECT_LT((to + j - cells_.before) / cells_.plane_pitch, slot + 1);
        shared_.at(to + j) = j >= phase + last ? 0 : index < 0 ? kOutside : memory.values.at(index);
      }
    }
  }

  int64_t at(int32_t i, const Memory& memory, int64_t plane, int32_t row, int32_t column) const {
    const int64_t slot = cells_.before + int64_t{i} * cells_.plane_pitch;
    if (!is_packed_) return slot + row * cells_.pitch + column;
    if (!cells_.is_dense) {
      const int64_t phase = memory.phase_of(offset(plane, 0, 0)) + row * (r_.step % kDepthwiseWord);
      return slot + row * cells_.pitch + phase % kDepthwiseWord + column;
    }
    const int32_t top = std::max(r_.h, 0), above = std::min(top - r_.h, r_.rows);
    return slot + memory.phase_of(plane + top * r_.step) + (row - above) * cells_.pitch + r_.w +
           column;
  }

  const DepthwiseCells cells_;
  const Rectangle r_;
  const bool is_packed_;
  Values shared_;
};

Rectangle windows_of(const Depthwise& d, int32_t h, int32_t w, int64_t step) {
  return {.h = d.h.advance(h) + d.h.origin,
          .w = d.w.advance(w) + d.w.origin,
          .height = d.h.source_size,
          .width = d.w.source_size,
          .rows = d.h.window,
          .columns = d.w.window,
          .step = step};
}

bool is_packed(const Conv2dProblem& p) { return size_of(p.type) == 2; }

class Emulation {
 public:
  Emulation(const Conv2dProblem& problem, const Depthwise& d, Direction direction,
            const Memory& source, const Values& filter, Values& destination)
      : problem_(problem),
        d_(d),
        gather_(make_gather(problem, direction)),
        source_(source),
        filter_(filter),
        destination_(destination) {}

  void run() {
    for (int64_t block = 0; block < d_.blocks; ++block) {
      const auto rows = static_cast<int32_t>(block / d_.w.tiles);
      const int32_t h = rows % d_.h.tiles * d_.h.threads * d_.thread_rows;
      const auto w = static_cast<int32_t>(block % d_.w.tiles * d_.w.threads * kDepthwiseColumns);
      const int32_t first = rows / d_.h.tiles * d_.tile_planes;
      ASSERT_LT(first, d_.planes);
      SharedCells cells(d_.windows, windows_of(d_, h, w, gather_.source.h), d_.tile_planes,
                        is_packed(problem_));
      const int32_t planes = std::min(d_.tile_planes, d_.planes - first);
      for (int32_t i = 0; i < planes; ++i) cells.bring(i, source_, source_of(first + i));
      for (int32_t i = 0; i < planes; ++i) {
        for (int32_t y = 0; y < d_.h.threads * d_.thread_rows; ++y) {
          for (int32_t x = 0; x < d_.w.threads * kDepthwiseColumns; ++x) {
            if (h + y < d_.h.outputs && w + x < d_.w.outputs) sum(cells, first, i, h, w, y, x);
          }
        }
      }
    }
  }

 private:
  int64_t source_of(int32_t plane) const {
    const int32_t image = d_.channels.quotient(plane);
    const int32_t group = d_.rows.quotient(plane % d_.channels.divisor);
    return image * gather_.source.n + group * gather_.source.c;
  }

  void sum(const SharedCells& cells, int32_t first, int32_t i, int32_t h, int32_t w, int32_t y,
           int32_t x) {
    const int32_t plane = first + i;
    const int32_t image = d_.channels.quotient(plane), channel = plane % d_.channels.divisor;
    const int32_t group = d_.rows.quotient(channel), row = channel % d_.rows.divisor;
    double sum = 0;
    for (int32_t r = 0; r < d_.h.taps; ++r) {
      for (int32_t s = 0; s < d_.w.taps; ++s) {
        const int32_t v = y * d_.h.step + r + d_.h.tap_phase,
                      u = x * d_.w.step + s + d_.w.tap_phase;
        if (v % d_.h.upsampling != 0 || u % d_.w.upsampling != 0) continue;
        sum += cells.read(i, source_, source_of(plane), v / d_.h.upsampling, u / d_.w.upsampling) *
               filter_.at(group * gather_.filter_group + row * gather_.filter.n + d_.filter_first +
                          r * d_.h.filter_step + s * d_.w.filter_step);
      }
    }
    double& to = destination_.at(image * gather_.destination.n + channel * gather_.destination.c +
                                 (h + y) * gather_.destination.h + (w + x) * gather_.destination.w);
    EXPECT_EQ(to, kUnwritten) << "written twice";
    to = sum;
  }

  const Conv2dProblem& problem_;
  const Depthwise& d_;
  const Gather gather_;
  const Memory& source_;
  const Values& filter_;
  Values& destination_;
};

// The weight gradient of all channels, by the same walk over tiles and their windows.
Values emulate_wgrad(const Conv2dProblem& p, const DepthwiseWgrad& g, const Memory& grad_output,
                     const Memory& input) {
  const Depthwise& d = g.d;
  const Strides &in = p.input, &out = p.output;
  Values sums(filter_count(p));
  Values seen(output_count(p));
  for (int32_t channel = 0; channel < p.k; ++channel) {
    for (int32_t tile = 0; tile < g.tiles; ++tile) {
      const int32_t rows = tile / d.w.tiles;
      const int32_t w = tile % d.w.tiles * d.w.threads * kDepthwiseColumns;
      const int32_t h = rows % d.h.tiles * d.h.threads * kDepthwiseWgradRows;
      const Rectangle of_grads = {.h = h,
                                  .w = w,
                                  .height = d.h.outputs,
                                  .width = d.w.outputs,
                                  .rows = d.h.threads * kDepthwiseWgradRows,
                                  .columns = d.w.threads * kDepthwiseColumns,
                                  .step = out.h};
      SharedCells windows(d.windows, windows_of(d, h, w, in.h), d.tile_planes, is_packed(p));
      SharedCells grads(g.grads, of_grads, d.tile_planes, is_packed(p));
      for (int32_t i = 0; i < d.tile_planes; ++i) {
        const int32_t image = rows / d.h.tiles * d.tile_planes + i;
        if (image >= d.planes) break;
        const int64_t from = image * in.n + d.rows.quotient(channel) * in.c;
        const int64_t grads_from = image * out.n + channel * out.c;
        windows.bring(i, input, from);
        grads.bring(i, grad_output, grads_from);
        for (int32_t y = 0; y < of_grads.rows; ++y) {
          for (int32_t x = 0; x < of_grads.columns; ++x) {
            const double grad = grads.read(i, grad_output, grads_from, y, x);
            if (h + y >= d.h.outputs || w + x >= d.w.outputs) {
              EXPECT_EQ(grad, 0);  // it counts in the bias gradient
              continue;
            }
            seen.at(grads_from + (h + y) * out.h + w + x) += 1;
            for (int32_t tap = 0; tap < d.h.taps * d.w.taps; ++tap) {
              const int32_t row = y * d.h.step + tap / d.w.taps;
              const int32_t column = x * d.w.step + tap % d.w.taps;
              sums.at(channel * d.h.taps * d.w.taps + tap) +=
                  grad * windows.read(i, input, from, row, column);
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

class DepthwiseIn : public ::testing::TestWithParam<DataType> {};

TEST_P(DepthwiseIn, FollowsTheDefinition) {
  int fprop = 0, dgrad = 0, wgrad = 0;
  int64_t phase = 0;
  for (Shape shape : load_shapes("edges")) {
    Conv2dProblem& p = shape.problem;
    p.type = GetParam();
    phase = (phase + 3) % kDepthwiseWord;
    const Values inputs = small_integers(input_count(p), 1);
    const Values filter = small_integers(filter_count(p), 2);
    const Values grads = small_integers(output_count(p), 3);
    const Memory input = {inputs, phase}, grad_output = {grads, (phase + 5) % kDepthwiseWord};
    if (const auto d = make_depthwise(p, Direction::kFprop)) {
      Values output(output_count(p), kUnwritten);
      Emulation(p, *d, Direction::kFprop, input, filter, output).run();
      EXPECT_EQ(output, reference_fprop(p, inputs, filter, {})) << shape;
      ++fprop;
    }
    if (const auto d = make_depthwise(p, Direction::kDgrad)) {
      Values grad_input(input_count(p), kUnwritten);
      Emulation(p, *d, Direction::kDgrad, grad_output, filter, grad_input).run();
      EXPECT_EQ(grad_input, reference_dgrad(p, grads, filter)) << shape;
      ++dgrad;
    }
    if (const auto g = make_depthwise_wgrad(p)) {
      EXPECT_EQ(emulate_wgrad(p, *g, grad_output, input), reference_wgrad(p, grads, inputs))
          << shape;
      ++wgrad;
    }
  }
  EXPECT_GE(fprop, 6);
  EXPECT_GE(dgrad, 6);
  EXPECT_GE(wgrad, 3);
}

INSTANTIATE_TEST_SUITE_P(Types, DepthwiseIn,
                         ::testing::Values(DataType::kFloat32, DataType::kBFloat16));

// Threads read by fours of float32, from 16 bytes on, and copies are of 16 bytes in 16 bits.
void expect_aligned(const DepthwiseCells& cells, bool is_packed, const Shape& shape) {
  const int32_t elements = is_packed ? kDepthwiseWord : 4;
  if (!cells.is_dense) {
    EXPECT_EQ(cells.pitch % elements, 0) << shape;
  }
  EXPECT_EQ(cells.plane_pitch % elements, 0) << shape;
  EXPECT_EQ(cells.before % elements, 0) << shape;
  EXPECT_EQ(cells.after % elements, 0) << shape;
}

TEST(Depthwise, BlocksFitTheirMultiprocessor) {
  int dense = 0;
  for (Shape shape : all_shapes()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      shape.problem.type = type;
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        const auto d = make_depthwise(shape.problem, direction);
        if (!d) continue;
        EXPECT_LE(d->shared_bytes, 48 * 1024) << shape;  // what a block has without asking for more
        EXPECT_LE(d->threads, kDepthwiseThreads) << shape;
        EXPECT_GE(d->threads, d->w.threads * d->h.threads * d->tile_planes) << shape;
        EXPECT_LE(d->row_loaders * d->plane_loaders * kDepthwiseLanes, d->threads) << shape;
        expect_aligned(d->windows, is_packed(shape.problem), shape);
        EXPECT_EQ(d->filters_at % 4, 0) << shape;
        EXPECT_LE(int64_t{4} * (d->filters_at + d->tile_planes * d->h.taps * d->filter_pitch),
                  d->shared_bytes)
            << shape;
        dense += d->windows.is_dense;
        if (is_packed(shape.problem)) continue;
        const int32_t part = (d->w.cells(kDepthwiseColumns) + 3) / 4 * 4;
        EXPECT_LE((d->w.threads - 1) * d->w.advance(kDepthwiseColumns) + part, d->windows.pitch);
        EXPECT_LE(d->h.window * d->windows.pitch, d->windows.plane_pitch) << shape;
      }
    }
  }
  EXPECT_GT(dense, 20);
}

// What each warp's sums take, which lie in shared memory in the end.
int64_t sums_bytes(const Depthwise& d) { return d.threads / 32 * (d.h.taps * d.w.taps + 1) * 4; }

TEST(Depthwise, BlocksOfTheWeightGradientFitToo) {
  for (Shape shape : all_shapes()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      shape.problem.type = type;
      const auto g = make_depthwise_wgrad(shape.problem);
      if (!g) continue;
      const Depthwise& d = g->d;
      EXPECT_LE(d.shared_bytes, 48 * 1024) << shape;
      EXPECT_GE(d.threads, d.w.threads * d.h.threads * d.tile_planes) << shape;
      EXPECT_LE(d.threads, kDepthwiseThreads) << shape;
      expect_aligned(d.windows, is_packed(shape.problem), shape);
      expect_aligned(g->grads, is_packed(shape.problem), shape);
      EXPECT_EQ(g->grads_at % 4, 0) << shape;
      EXPECT_EQ(g->stage % 4, 0) << shape;
      EXPECT_LE(sums_bytes(d), d.shared_bytes) << shape;
    }
  }
}

// Of any paddings, strides and filters, whole planes in one run or not.
TEST(Depthwise, BlocksFitWhateverThePaddings) {
  for (const char* filter : {"r3s3", "r4s4", "r7s7", "r16s7", "r1s5"}) {
    for (const char* size : {"h1w1", "h7w7", "h3w120", "h200w9", "h9w255"}) {
      for (const char* pad :
           {"0,0,0,0", "50,50,50,50", "15,0,6,0", "0,6,0,6", "0,15,0,6", "700,1,300,2"}) {
        for (const char* stride : {"1,1", "2,2", "4,2"}) {
          Conv2dProblem p = parse_shape(std::string("a n1c5") + size + " k5" + filter +
                                        " groups=5 pad=" + pad + " stride=" + stride)
                                .problem;
          if (p.p() < 1 || p.q() < 1) continue;
          p.type = DataType::kFloat16;
          for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
            const auto d = make_depthwise(p, direction);
            EXPECT_LE(d ? d->shared_bytes : 0, 48 * 1024) << p;
          }
          const auto g = make_depthwise_wgrad(p);
          if (!g) continue;
          EXPECT_LE(g->d.shared_bytes, 48 * 1024) << p;
          EXPECT_LE(sums_bytes(g->d), g->d.shared_bytes) << p;
        }
      }
    }
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
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s4 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s6 groups=8"));
  EXPECT_FALSE(takes("n1c8h40w9 k8r17s3 groups=8"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=2,1"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 dil=1,2"));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,3"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=4,2"));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=1,2", Direction::kDgrad));
  EXPECT_TRUE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,2", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=3,2", Direction::kDgrad));
  EXPECT_FALSE(takes("n1c8h9w9 k8r3s3 groups=8 stride=2,3", Direction::kDgrad));
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
