// The index arithmetic of the Hopper weight gradient's kernels, emulated on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/families/wgrad/step_cells.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/families/wgrad/each_plan.h"
#include "cpp_tests/families/wgrad/shifting_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using wgrad::Arguments;
using wgrad::Block;
using wgrad::Plan;

// The kernels' work in plain loops: the same arguments, cells, descriptors and order of partial
// sums. Of each warpgroup only some rows are computed.
class Emulation {
 public:
  static constexpr std::array<int32_t, 4> kRows = {0, 9, 17, 63};
  static constexpr int32_t kColumns = 8;  // that lie side by side in shared memory
  using Columns = std::array<float, kColumns>;
  using Sums = std::array<Columns, kRows.size()>;
  using Pixels = std::array<std::vector<float>, kRows.size()>;  // (pixel, segment)

  Emulation(const Conv2dProblem& problem, const Arguments& args, const Values& grad_output,
            const Values& input)
      : problem_(problem), args_(args), grad_output_(grad_output), input_(input) {
    partial_.assign(static_cast<size_t>(args.partials * args.partial_floats()), 0);
    written_.assign(partial_.size(), false);
  }

  // Fails where a result is wrong, or comes twice or never.
  void expect(const Values& expected, const std::string& what) {
    for (int64_t i = 0; i < args_.blocks(); ++i) run(args_.block(static_cast<uint32_t>(i)));
    std::vector<bool> found(expected.size(), false);
    for (int64_t i = 0; i < args_.partial_floats(); ++i) {
      const wgrad::FilterElement e = args_.element(i);
      if (!e.exists) continue;
      const int64_t at = ((e.k * problem_.group_c() + e.c) * problem_.r + e.r) * problem_.s + e.s;
      ASSERT_FALSE(found.at(static_cast<size_t>(at))) << what << ": written twice";
      found[static_cast<size_t>(at)] = true;
      if (!written_[static_cast<size_t>(i)]) continue;
      double sum = 0;
      for (int32_t index = 0; index < args_.partials; ++index) {
        ASSERT_TRUE(written_[static_cast<size_t>(index * args_.partial_floats() + i)]) << what;
        sum += partial_[static_cast<size_t>(index * args_.partial_floats() + i)];
      }
      const double wanted = expected[static_cast<size_t>(at)];
      ASSERT_TRUE(sum == wanted || (std::isnan(sum) && std::isnan(wanted)))
          << what << ": k " << e.k << " c " << e.c << " r " << e.r << " s " << e.s << " is " << sum
          << " and not " << wanted;
    }
    EXPECT_TRUE(std::all_of(found.begin(), found.end(), [](bool is) { return is; })) << what;
  }

 private:
  // Of each segment the cells of shared memory one after the other: the ring, the zeros behind it,
  // and at last as many as are read at once. What nothing was loaded to is NaN. The integers are so
  // small that float's sums of them are exact.
  int32_t zeros() const { return args_.zeros_at / 16; }
  int32_t cells_end() const { return zeros() + args_.zero_cells; }
  int32_t segment_cells() const { return cells_end() + kColumns; }

  void clear_cells() {
    cells_.assign(static_cast<size_t>(args_.segments) * static_cast<size_t>(segment_cells()), NAN);
    for (int32_t j = 0; j < args_.segments; ++j) {
      std::fill_n(cells_.begin() + static_cast<int64_t>(place(j, segment_cells(), zeros())),
                  args_.zero_cells, 0.0f);
    }
  }

  static size_t place(int32_t segment, int32_t cells, int32_t cell) {
    return static_cast<size_t>(segment) * static_cast<size_t>(cells) + static_cast<size_t>(cell);
  }

  // Loads run ahead as far as they may; cells that nothing fills are NaN.
  void run(const Block& block) {
    const int32_t first = args_.first_strip(block.split), strips = args_.strips_of(block.split);
    ASSERT_GE(strips, 1);
    clear_cells();
    sums_.assign(static_cast<size_t>(wgrad::kMathGroups * group_sums()), Sums{});
    wgrad::Window read = args_.first_window(block.split), stored = read;
    int32_t loaded = 0;
    for (int32_t i = 0; i < strips; ++i) {
      while (loaded < strips && loaded - i <= args_.strips_behind(stored.step)) {
        const int32_t line = loaded == 0 ? 0 : args_.first_fresh(block, stored);
        load_lines(block, first + loaded++, stored, line);
        args_.advance(stored);
      }
      const bool is_short = strips - i <= args_.short_strips_of(block.split);
      for (int32_t group = 0; group < wgrad::kMathGroups; ++group) {
        add(block, first + i, read, group,
            is_short ? args_.short_pixels_of[group] : args_.group_pixels());
      }
      args_.advance(read);
    }
    for (int32_t group = 0; group < wgrad::kMathGroups; ++group) store(block, group);
  }

  int32_t group_sums() const { return args_.instructions * args_.width / kColumns; }

  double input_at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return input_[static_cast<size_t>(((n * problem_.c + c) * problem_.h + y) * problem_.w + x)];
  }

  void load_lines(const Block& block, int32_t strip, const wgrad::Window& window, int32_t line) {
    for (; line < block.rows; ++line) {
      const int32_t first_cell = args_.in_ring(window.cell + line * args_.line_cells);
      for (int32_t j = 0; j < args_.segments; ++j) {
        const wgrad::Segment at = args_.segment_at(strip, j, args_.segments);
        load_line(block, at, args_.input_row(at, block.first_row + line),
                  place(j, segment_cells(), first_cell));
      }
    }
  }

  bool is_short(const wgrad::Segment& at) const {
    return at.column == args_.whole_segments * args_.segment;
  }

  // The cells of a line that lie in row y of the input.
  void load_line(const Block& block, const wgrad::Segment& at, int32_t y, size_t cell) {
    const bool row_exists = at.exists && y >= 0 && y < args_.h;
    const int32_t end = args_.input_end(at), columns = args_.plane_cells / args_.mma_channels;
    const int32_t left_part = is_short(at) ? args_.left_part : 0;
    for (int32_t plane = 0; plane < args_.planes(); ++plane) {
      const int32_t channels = (block.first_group + plane / args_.classes) * args_.mma_channels;
      const int32_t first = args_.input_column(at, plane % args_.classes) - left_part;
      for (int32_t column = 0; column < columns; ++column) {
        const int32_t x =
            first + column * args_.stride_w - (column < left_part ? args_.left_part_step() : 0);
        const bool exists = row_exists && x >= 0 && x < end;
        for (int32_t c = channels; c < channels + args_.mma_channels; ++c) {
          cells_.at(cell++) =
              exists && c < args_.channels
                  ? static_cast<float>(input_at(at.image, block.group * args_.channels + c, y, x))
                  : 0;
        }
      }
    }
  }

  int32_t shift_of(int32_t strip) const { return args_.shift_of(args_.step_of(strip)); }

  // A warpgroup's pixels of a row, of the strip's segments; NaN where there is no such row.
  std::vector<float> load_pixels(const Block& block, int32_t strip, int32_t group,
                                 int32_t row) const {
    std::vector<float> pixels(place(args_.group_pixels(), args_.segments, 0), NAN);
    const int32_t k = block.row_tile * args_.tile_rows + args_.first_row_of(group) + row;
    if (k >= args_.rows) return pixels;
    for (int32_t j = 0; j < args_.segments; ++j) {
      const wgrad::Segment at = args_.segment_at(strip, j, args_.segments);
      for (int32_t i = 0; i < args_.group_pixels(); ++i) {
        const int32_t column =
            args_.pixel_column(at, args_.first_pixel_of(group) + i, shift_of(strip));
        const bool inside = at.exists && column < args_.q;
        const int64_t image_row =
            (int64_t{at.image} * problem_.k + block.group * args_.rows + k) * args_.p + at.row;
        pixels[place(i, args_.segments, j)] =
            inside ? static_cast<float>(
                         grad_output_[static_cast<size_t>(image_row * args_.q + column)])
                   : 0;
      }
    }
    return pixels;
  }

  // count: pixels of each segment that the warpgroup multiplies.
  void add(const Block& block, int32_t strip, const wgrad::Window& window, int32_t group,
           int32_t count) {
    const int32_t first_pixel = args_.first_pixel_of(group);
    Pixels pixels;
    std::ranges::transform(kRows, pixels.begin(),
                           [&](int32_t row) { return load_pixels(block, strip, group, row); });
    for (int32_t i = 0; i < group_sums(); ++i) {
      const int32_t column = i * kColumns % args_.width;
      const int32_t instruction = args_.first_instruction_of(group) + i * kColumns / args_.width;
      const int32_t cell = args_.in_ring(window.cell + args_.first_cell(block, instruction) +
                                         first_pixel * args_.mma_channels);
      // Of each pixel the cells begin so many columns further.
      const bool whole = !is_short(args_.segment_at(strip, 0, args_.segments));
      const auto columns_ahead = [&](int32_t pixel) {
        if (whole) return shift_of(strip);
        return first_pixel + pixel < shift_of(strip) ? 0 : args_.left_part;
      };
      add_products(pixels, count, columns_ahead, cell, column / kColumns * args_.column_stride(),
                   sums_[static_cast<size_t>(group * group_sums() + i)]);
    }
  }

  // The warpgroup's sums, as its threads write them.
  void store(const Block& block, int32_t group) {
    const int64_t fragment =
        args_.partial_index(block, group) * args_.partial_floats() +
        ((int64_t{block.group} * args_.row_groups() + args_.row_group_of(block, group)) *
             args_.column_tiles() +
         block.column_tile) *
            args_.fragment_floats() +
        args_.first_instruction_of(group) * args_.width * wgrad::kRowsOfGroup;
    for (int32_t i = 0; i < group_sums(); ++i) {
      const Sums& sums = sums_[static_cast<size_t>(group * group_sums() + i)];
      for (size_t r = 0; r < kRows.size(); ++r) {
        for (int32_t j = 0; j < kColumns; ++j) {
          const int32_t thread = kRows[r] / 16 * 32 + kRows[r] % 8 * 4 + j / 2;
          const int64_t at = fragment + (i * 128 + thread) * 4 + kRows[r] % 16 / 8 * 2 + j % 2;
          partial_.at(static_cast<size_t>(at)) += sums[r][static_cast<size_t>(j)];
          written_.at(static_cast<size_t>(at)) = true;
        }
      }
    }
  }

  // The rows' pixels times what an instruction that begins at a cell reads, `ahead` cells further:
  // in neighbouring columns. As the mainloop does, it takes whole loads of pixels, one at least.
  template <class ColumnsAhead>
  void add_products(const Pixels& pixels, int32_t count, ColumnsAhead columns_ahead, int32_t cell,
                    int32_t ahead, Sums& sums) {
    const uint32_t lines = static_cast<uint32_t>(args_.mma_channels) << 16;
    const auto zeros_at = static_cast<uint32_t>(zeros());
    const int32_t loads = std::max(1, (count + args_.segments - 1) / args_.segments);
    met_.clear();
    for (int32_t pixel = 0; pixel < loads * args_.segments; ++pixel) {
      const int32_t column = pixel / 2 * 2 + columns_ahead(pixel);
      const uint32_t at_step = lines + static_cast<uint32_t>(column * args_.mma_channels);
      const uint32_t word =
          wgrad::cells_of_step(count - pixel / 2 * 2, at_step, zeros_at).word(cell);
      const uint32_t at = (word & 0x3fff) + (pixel % 2 == 1 ? word >> 16 & 0x3fff : 0);
      for (int32_t j = 0; j < args_.segments; ++j) {
        met_.push_back(values_at(j, static_cast<int32_t>(at) + ahead));
      }
    }
    for (size_t r = 0; r < kRows.size(); ++r) {
      ASSERT_LE(met_.size(), pixels[r].size());
      Columns row{};
      for (size_t i = 0; i < met_.size(); ++i) {
        for (size_t j = 0; j < kColumns; ++j) row[j] += pixels[r][i] * met_[i][j];
      }
      for (size_t j = 0; j < kColumns; ++j) sums[r][j] += row[j];
    }
  }

  // kColumns neighbouring cells; NaN where the ring and the zeros behind it have none.
  const float* values_at(int32_t segment, int32_t cell) const {
    return &cells_[place(segment, segment_cells(), std::min(cell, cells_end()))];
  }

  const Conv2dProblem& problem_;
  const Arguments& args_;
  const Values& grad_output_;
  const Values& input_;
  std::vector<float> cells_;       // (segment, cell)
  std::vector<Sums> sums_;         // of a block: (warpgroup, columns)
  std::vector<const float*> met_;  // by each pixel of each segment: kColumns cells
  std::vector<double> partial_;
  std::vector<bool> written_;
};

// One plan of every second kind, and of large problems of every fourth, others for another shape:
// of a kind they differ by how much of the problem an instruction, a strip, and a split have.
std::vector<Plan> some_plans(const Conv2dProblem& p, bool tf32) {
  std::map<std::array<int, 6>, std::vector<Plan>> kinds;
  for (const Plan& plan : wgrad::make_plans(p, h200(), true, tf32)) {
    kinds[{plan.instance.instructions, plan.instance.width, plan.mma_channels,
           static_cast<int>(plan.share), plan.boxes, plan.walk_rows > 0}]
        .push_back(plan);
  }
  std::vector<Plan> some;
  const size_t step = p.flop() > 1e7 ? 4 : 2;
  for (auto turn = static_cast<size_t>(p.h + p.w); const auto& [kind, plans] : kinds) {
    if (++turn % step == 0) some.push_back(plans[turn / step % plans.size()]);
  }
  return some;
}

class Sm90WgradEmulation : public ::testing::TestWithParam<Shape> {
 protected:
  // Follows the plans that plans_of(problem) gives, of float32 and of a 16-bit type; each third of
  // them, which is enough for zeros that no plan should multiply, with an infinite input too.
  template <class Plans>
  void check(Plans plans_of) const {
    check(plans_of, false);
    if (!HasFatalFailure()) check(plans_of, true);
  }

  template <class Plans>
  void check(Plans plans_of, bool is_infinite) const {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem whole = GetParam().problem;
      whole.type = type;
      const Conv2dProblem p = flattened(whole);
      Values input = small_integers(input_count(p), 1);
      Values grad_output = small_integers(output_count(p), 2);
      if (is_infinite) {  // no sum is NaN, unless a zero that is none of the problem's meets the
                          // input
        std::ranges::fill(input, INFINITY);
        for (double& gradient : grad_output) gradient = std::max(gradient, 1.0);
      }
      const Values expected = reference_padded_wgrad(p, grad_output, input);
      const std::vector<Plan> plans = plans_of(whole);
      for (size_t i = 0; i < plans.size(); i += is_infinite ? 3 : 1) {
        const Plan& plan = plans[i];
        std::ostringstream what;
        what << p << ' ' << plan;
        const Arguments args = wgrad::make_arguments(p, plan).value();
        EXPECT_LE(args.splits, plan.splits) << what.str();
        Emulation(p, args, grad_output, input).expect(expected, what.str());
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_P(Sm90WgradEmulation, FollowsTheDefinition) {
  check([](const Conv2dProblem& p) {
    std::vector<Plan> plans = some_plans(p, true);
    if (p.type == DataType::kFloat32) {
      const auto precise = some_plans(p, false);
      plans.insert(plans.end(), precise.begin(), precise.end());
    }
    return plans;
  });
}

// The same where splits interleave walks, as no plan of so small a problem has them.
TEST_P(Sm90WgradEmulation, InTurnsFollowsTheDefinition) {
  check([](const Conv2dProblem& p) {
    Plan plan = wgrad::make_plans(p, h200(), true).front();
    std::vector<Plan> plans;
    for (const int walk_rows : {1, 2, 5}) {
      for (const int splits : {2, 3, 7}) {
        plan.walk_rows = walk_rows;
        plan.splits = splits;
        plans.push_back(plan);
      }
    }
    return plans;
  });
}

TEST_P(Sm90WgradEmulation, WithShiftedSegmentsFollowsTheDefinition) {
  check([](const Conv2dProblem& p) { return shifting_plans(p, true); });
}

std::vector<Shape> taken_edges() {
  std::vector<Shape> taken;
  for (const Shape& shape : load_shapes("edges")) {
    if (wgrad_declines(shape.problem).empty()) taken.push_back(shape);
  }
  return taken;
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90WgradEmulation, ::testing::ValuesIn(taken_edges()),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(Shifted, Sm90WgradEmulation, ::testing::ValuesIn(shifted_shapes()),
                         name_of_shape);

}  // namespace
}  // namespace haloconv::testing
