// The planner of the Hopper weight gradient, and the kernels' index arithmetic, emulated on the
// host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/families/wgrad/step_cells.h"
#include "conv2d/geometry/rows_innermost.h"
#include "cpp_tests/families/wgrad/shifting_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using wgrad::Arguments;
using wgrad::Block;
using wgrad::Plan;

Conv2dProblem problem_of(const std::string& text) { return parse_shape("a " + text).problem; }

std::string reason(const Conv2dProblem& p, const Chip& chip = h200()) {
  return hopper_rows_decline(p, Direction::kWgrad, chip);
}

// Calls check(shape, problem, plan, arguments) for each plan of each shape of some files, of
// float32, rounded to TF32 and not, and of 16-bit elements, that the kernels of wgrad/ have; the
// problem is the shape's, flattened.
template <class Check>
void for_each_plan(std::initializer_list<const char*> files, Check check) {
  for (const char* file : files) {
    for (Shape shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        shape.problem.type = type;
        if (!reason(shape.problem).empty()) continue;
        const Conv2dProblem p = flattened(shape.problem);
        for (const bool tf32 : {true, false}) {
          if (!tf32 && type != DataType::kFloat32) continue;
          const auto plans = wgrad::make_plans(shape.problem, h200(), true, tf32);
          EXPECT_FALSE(plans.empty()) << shape;
          for (const Plan& plan : plans) {
            EXPECT_EQ(plan.precise, !tf32) << shape << plan;
            check(shape, p, plan, wgrad::make_arguments(p, plan).value());
          }
        }
      }
    }
  }
}

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

// Where rows begin at less than whole 16 bytes: whole segments begin where more is copied at once,
// and all segments of a row together have each of its pixels once.
void expect_each_pixel_once(const Conv2dProblem& p, const Plan& plan, const Arguments& args) {
  std::map<std::pair<int32_t, int32_t>, std::vector<int>> found;  // by image and row
  for (int32_t strip = 0; strip < args.strips; ++strip) {
    const int32_t shift = args.shift_of(args.step_of(strip));
    ASSERT_LE(shift, args.most_shift) << p << plan;
    for (int32_t j = 0; j < args.segments; ++j) {
      const wgrad::Segment at = args.segment_at(strip, j, args.segments);
      if (!at.exists) continue;
      std::vector<int>& row = found[{at.image, at.row}];
      row.resize(static_cast<size_t>(args.q), 0);
      const bool whole = at.column < args.whole_segments * args.segment;
      if (whole) {
        const int64_t first = int64_t{at.row} * args.output_p + args.pixel_column(at, 0, shift);
        ASSERT_EQ(first % args.whole_vector, 0) << p << plan;
      }
      for (int32_t i = 0; i < (whole ? args.segment : args.short_pixels); ++i) {
        ++row.at(static_cast<size_t>(args.pixel_column(at, i, shift)));
      }
    }
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(p.n * p.p())) << p << plan;
  for (const auto& [row, times] : found) {
    ASSERT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << p << plan;
  }
}

TEST(Sm90WgradPlan, SegmentsShiftToWholeVectors) {
  std::set<std::pair<int, int>> vectors_and_shifts;
  std::set<wgrad::Share> shares;
  for (const Shape& shape : shifted_shapes()) {
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      Conv2dProblem p = shape.problem;
      p.type = type;
      for (const Plan& plan : shifting_plans(p, true)) {
        const Arguments args = wgrad::make_arguments(p, plan).value();
        EXPECT_GT(args.whole_vector, args.output_vector) << p << plan;
        expect_each_pixel_once(p, plan, args);
        shares.insert(plan.share);
        vectors_and_shifts.emplace(args.whole_vector, args.row_shift);
      }
    }
  }
  EXPECT_EQ(shares, (std::set{wgrad::Share::kChannels, wgrad::Share::kPixels}));
  EXPECT_EQ(vectors_and_shifts, (std::set<std::pair<int, int>>{{4, 2}, {8, 2}, {8, 4}, {8, 6}}));
}

// What is worth being timed of the problem whose bound the copies are.
TEST(Sm90WgradPlan, SegmentsShiftWhereCopiesAreTheBound) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Conv2dProblem p = problem_of("n16c16h1024w1024 k128r3s3");
    p.type = type;
    const std::vector<Plan> plans = wgrad::best_plans(p, h200(), true, true, 8);
    EXPECT_TRUE(std::ranges::any_of(plans, [&](const Plan& plan) {
      return wgrad::make_arguments(p, plan)->row_shift > 0;
    })) << p;
  }
}

TEST(Sm90WgradPlan, SplitsTakeTurnsWhereMemoryIsTheBound) {
  int plans = 0;
  for_each_plan({"reference", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                               const Plan& plan, const Arguments& args) {
    EXPECT_EQ(args.split_flights > 1, plan.walk_rows > 0 && args.split_strips > args.walk_rows)
        << shape << plan;
    if (plan.walk_rows > 0) ++plans;
  });
  EXPECT_GT(plans, 5);
}

std::vector<Shape> taken_edges() {
  std::vector<Shape> taken;
  for (const Shape& shape : load_shapes("edges")) {
    if (reason(shape.problem).empty()) taken.push_back(shape);
  }
  return taken;
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90WgradEmulation, ::testing::ValuesIn(taken_edges()),
                         name_of_shape);
INSTANTIATE_TEST_SUITE_P(Shifted, Sm90WgradEmulation, ::testing::ValuesIn(shifted_shapes()),
                         name_of_shape);

TEST(Sm90WgradPlan, EveryPlanFitsTheMultiprocessorAndCoversThePixels) {
  for_each_plan(
      {"reference", "edges", "layers", "networks"},
      [](const Shape& shape, const Conv2dProblem& p, const Plan& plan, const Arguments& args) {
        EXPECT_LE(wgrad::shared_bytes(args), kMaxShared) << shape << plan;
        EXPECT_GE(plan.stages, wgrad::kMinStages) << shape << plan;
        EXPECT_LE(plan.tile_runs * plan.tile_groups, args.block_instructions()) << plan;
        EXPECT_GE(int64_t{args.strips} * args.segments * args.segment, p.n * p.p() * p.q())
            << shape << plan;
        // Each split has strips, and together they have all.
        EXPECT_LT(int64_t{args.splits - 1} * args.split_strips, args.strips) << shape << plan;
        EXPECT_GE(int64_t{args.splits} * args.split_strips, args.strips) << shape << plan;
        EXPECT_EQ(plan.splits, args.splits) << shape << plan;
        EXPECT_EQ(plan.workspace_bytes, wgrad::workspace_bytes(args, true)) << shape << plan;
      });
}

// What is multiplied of a strip's segments is what the output has of them: no zero of the kernel's
// own meets a pixel of the input.
TEST(Sm90WgradPlan, SegmentsOfAStripEndAlike) {
  int short_strips = 0;
  for_each_plan({"edges", "networks"}, [&](const Shape& shape, const Conv2dProblem& p,
                                           const Plan& plan, const Arguments& args) {
    const int32_t multiplied = args.short_pixels_of[0] +
                               (plan.share == wgrad::Share::kPixels ? args.short_pixels_of[1] : 0);
    ASSERT_EQ(multiplied, p.q() % plan.segment) << shape << plan;
    for (const int32_t split : {0, args.splits / 2, args.splits - 1}) {
      const int32_t strips = args.strips_of(split);
      for (int32_t i = 0; i < strips; ++i) {
        const bool is_short = strips - i <= args.short_strips_of(split);
        short_strips += is_short;
        for (int32_t j = 0; j < args.segments; ++j) {
          const wgrad::Segment at = args.segment_at(args.first_strip(split) + i, j, args.segments);
          if (!at.exists) continue;
          ASSERT_EQ(std::min<int64_t>(p.q() - at.column, plan.segment),
                    is_short ? multiplied : plan.segment)
              << shape << plan;
        }
      }
    }
  });
  EXPECT_GT(short_strips, 0);
}

TEST(Sm90WgradPlan, PlansAreSortedByTheirEstimate) {
  for (const Shape& shape : load_shapes("reference")) {
    const auto plans = wgrad::make_plans(shape.problem, h200(), false);
    ASSERT_GT(plans.size(), 10u) << shape;
    for (size_t i = 1; i < plans.size(); ++i) {
      EXPECT_LE(plans[i - 1].estimated_ms, plans[i].estimated_ms) << shape;
    }
  }
}

TEST(Sm90WgradPlan, PartialSumsOfTheReferenceProblemsAreUnder64MiB) {
  for_each_plan({"reference"},
                [](const Shape& shape, const Conv2dProblem&, const Plan& plan, const Arguments&) {
                  EXPECT_LT(plan.workspace_bytes, int64_t{64} << 20) << shape << plan;
                });
}

// Where rows are copied as they lie: the 8 threads that read 16 bytes at one time, of two rows and
// four columns of the operand, read 8 different groups of banks.
TEST(Sm90WgradPlan, ThreadsMeetNoBankTwice) {
  for_each_plan({"reference", "edges"}, [](const Shape& shape, const Conv2dProblem&,
                                           const Plan& plan, const Arguments& args) {
    if (plan.boxes) return;
    const int32_t of_column = args.segments / 4;
    for (int32_t segment = 0; segment < of_column; ++segment) {
      std::set<int32_t> groups;
      for (int32_t i = 0; i < 8; ++i) {
        const int32_t cell = i / 4 * args.row_cells(args.segments) +
                             (i % 4 * of_column + segment) * args.segment_cells;
        groups.insert(cell % 8);
      }
      ASSERT_EQ(groups.size(), 8u) << shape << plan;
    }
    EXPECT_GE(args.segment_cells * args.segments, args.segment) << shape << plan;
    EXPECT_EQ(args.stage_bytes, args.tile_rows * args.row_cells(args.segments) * 16);
  });
}

// Where a lane loads neighbouring columns of one channel at once, the 8 lanes that store 16 bytes
// at one time write to 8 different groups of banks.
TEST(Sm90WgradPlan, LanesStoreToDifferentBanks) {
  constexpr int kVector = 4;
  for (const int mma_channels : {8, 16, 24, 32, 56}) {
    for (int first_lane = 0; first_lane < 32; first_lane += 8) {
      std::set<int> groups;
      for (int lane = first_lane; lane < first_lane + 8; ++lane) {
        const int channel = lane % wgrad::lane_channels(kVector);
        const int column = lane / wgrad::lane_channels(kVector) * kVector;
        groups.insert((channel + column * mma_channels) % 8);
      }
      EXPECT_EQ(groups.size(), 8u) << mma_channels << ' ' << first_lane;
    }
  }
}

// Long walks have rings of one window and what other stages add to it: before a walk's first strip
// all others have been read. Shorter ones hold two windows.
TEST(Sm90WgradPlan, LongWalksHoldOneWindow) {
  int long_walks = 0;
  for_each_plan({"reference", "edges", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                                        const Plan& plan, const Arguments& args) {
    EXPECT_EQ(args.strips_behind(0), args.holds_two_windows()) << shape << plan;
    EXPECT_TRUE(args.walk_rows >= 128 || args.holds_two_windows()) << shape << plan;
    EXPECT_GE(args.ring_lines - args.window_lines, args.most_behind) << plan;
    long_walks += !args.holds_two_windows();
  });
  EXPECT_GT(long_walks, 100);
}

// With Share::kColumns both warpgroups have instructions with columns of their own.
TEST(Sm90WgradPlan, WarpgroupsShareColumns) {
  int plans = 0;
  for_each_plan({"reference", "networks"}, [&](const Shape& shape, const Conv2dProblem&,
                                               const Plan& plan, const Arguments& args) {
    if (plan.share != wgrad::Share::kColumns) return;
    ++plans;
    Block b{};
    args.set_columns(b, 0);
    EXPECT_EQ(args.first_instruction_of(1), plan.instance.instructions) << shape << plan;
    EXPECT_FALSE(args.mma_columns(b, args.first_instruction_of(1)).idle) << shape << plan;
    EXPECT_EQ(args.first_pixel_of(1), 0) << shape << plan;
    EXPECT_EQ(args.row_group_of(b, 1), args.row_group_of(b, 0)) << shape << plan;
  });
  EXPECT_GT(plans, 100);
}

// Those of the reference problems that products bound, with 64 output channels and with 128.
TEST(Sm90WgradPlan, WideFiltersShareColumns) {
  for (const char* name : {"asym_5x7", "dilated_5x9", "asym_5x9"}) {
    const std::vector<Shape> shapes = load_shapes("reference");
    const auto shape = std::ranges::find(shapes, name, &Shape::name);
    ASSERT_NE(shape, shapes.end());
    EXPECT_EQ(wgrad::make_plans(shape->problem, h200(), true).front().share, wgrad::Share::kColumns)
        << name;
  }
}

// What the tap of a slot reads for the segment's last pixel is a cell of its plane.
TEST(Sm90WgradPlan, EveryTapStaysInsideItsPlane) {
  for_each_plan({"reference", "edges", "layers"}, [](const Shape& shape, const Conv2dProblem&,
                                                     const Plan& plan, const Arguments& args) {
    const int32_t last = args.runs_of_class * args.mma_taps - 1;
    const int32_t pixels = std::max(args.segment + args.most_shift,
                                    args.row_shift > 0 ? args.left_part + args.short_pixels : 0);
    EXPECT_EQ(args.left_columns + pixels + last * args.shift_step, args.plane_columns)
        << shape << plan;
    for (int32_t tile = 0; tile < args.column_tiles(); ++tile) {
      Block b{};
      args.set_columns(b, tile);
      EXPECT_LE((args.holds_two_windows() ? 2 : 1) * b.rows, args.ring_lines) << shape << plan;
      EXPECT_GE(args.most_behind, 1) << shape << plan;
    }
  });
}

// What the copy engine writes, as PTX describes its swizzle, is where a thread looks for it; the 8
// threads that read at one time, of two rows and four segments, read 8 different groups of banks.
TEST(Sm90WgradPlan, ThreadsFindTheirPixelsInBoxes) {
  int plans = 0;
  for_each_plan({"reference", "edges"}, [&](const Shape& shape, const Conv2dProblem&,
                                            const Plan& plan, const Arguments& args) {
    EXPECT_EQ(plan.boxes, args.boxes) << shape << plan;
    if (!plan.boxes) return;
    ++plans;
    const uint32_t row_bytes = args.box_columns * 4;
    EXPECT_LE(args.segment + (args.row_maps > 1 ? 2 : 0), args.segment_boxes * args.box_columns);
    EXPECT_EQ(args.grad_at % 128 + args.segment_bytes % 128 + args.box_bytes % 128, 0) << plan;
    for (uint32_t base = 1024; base < 2048; base += 128) {
      for (int32_t row = 0; row < args.tile_rows; row += 2) {
        std::set<uint32_t> groups;
        for (int32_t i = 0; i < 8; ++i) {
          const int32_t own_row = row + i / 4, segment = i % 4;
          const uint32_t first = base + args.row_in_boxes(own_row, segment);
          const uint32_t swizzle = args.swizzle_at(first);
          for (int32_t pixel = 0; pixel < args.segment_boxes * args.box_columns; pixel += 2) {
            const uint32_t plain = base + segment * args.segment_bytes +
                                   pixel / args.box_columns * args.box_bytes + own_row * row_bytes +
                                   pixel % args.box_columns * 4;
            const uint32_t swizzled = plain ^ (plain >> 7 << 4 & (row_bytes - 1));
            ASSERT_EQ(first + args.in_boxes(pixel * 4, swizzle), swizzled) << shape << plan;
          }
          groups.insert((first + args.in_boxes(0, swizzle)) / 16 % 8);
        }
        ASSERT_EQ(groups.size(), 8u) << shape << plan;
      }
    }
  });
  EXPECT_GT(plans, 20);
}

TEST(Sm90WgradPlan, BoxesAreOfDenseTensorsAlone) {
  const auto has_boxes = [](const Conv2dProblem& p) {
    EXPECT_EQ(reason(p), "");
    const auto plans = wgrad::make_plans(p, h200(), false);
    return std::ranges::any_of(plans, [](const Plan& plan) { return plan.boxes; });
  };
  const Conv2dProblem p = problem_of("n4c16h34w34 k64r3s3");
  EXPECT_TRUE(has_boxes(p));
  Conv2dProblem expanded = p, turned = p, pitched = p;
  expanded.output.n = 0;
  turned.output.n = 32 * 32;
  turned.output.c = 4 * 32 * 32;
  pitched.output.c += 2;  // channels begin at 8 bytes of 16
  EXPECT_FALSE(has_boxes(expanded));
  EXPECT_FALSE(has_boxes(turned));
  EXPECT_FALSE(has_boxes(pitched));
}

TEST(Sm90WgradPlan, BoxesCanBeLeftOut) {
  for_each_plan({"reference", "edges", "networks"}, [](const Shape& shape, const Conv2dProblem& p,
                                                       const Plan& plan, const Arguments& args) {
    if (!plan.boxes) return;
    const Plan without = wgrad::without_boxes(p, plan);
    const auto made = wgrad::make_arguments(p, without);
    ASSERT_TRUE(made) << shape << plan;
    EXPECT_FALSE(made->boxes) << shape << plan;
    EXPECT_GE(without.stages, wgrad::kMinStages) << shape << plan;
    EXPECT_LE(wgrad::shared_bytes(*made), kMaxShared) << shape << plan;
    EXPECT_LE(wgrad::workspace_bytes(*made, true), wgrad::workspace_bytes(args, true))
        << shape << plan;
  });
}

TEST(Sm90WgradPlan, DeclinesWithItsReason) {
  const Conv2dProblem p = problem_of("n2c16h20w20 k16r3s3");
  EXPECT_EQ(reason(p), "");
  EXPECT_EQ(reason(problem_of("n2c16h20w20 k16r3s3 stride=2,2")), "");
  EXPECT_EQ(reason(p, chip_of("NVIDIA A10")),
            "the device is not of compute capability 9.0 but of 8.6");
  Conv2dProblem half = p;
  half.type = DataType::kFloat16;
  EXPECT_EQ(reason(half), "");
  EXPECT_NE(reason(problem_of("n2c16h20w20 k16r3s3 groups=4")).find("fewer than 8"),
            std::string::npos);
  EXPECT_NE(reason(problem_of("n2c16h90w90 k16r3s3 stride=9,9")).find("over 8"), std::string::npos);
  Conv2dProblem last = p;
  last.set_dense_strides(true);
  EXPECT_NE(reason(last).find("contiguous"), std::string::npos);
  Conv2dProblem expanded = p;
  expanded.output = {0, 0, 0, 0};
  EXPECT_NE(reason(expanded).find("contiguous"), std::string::npos);
}

// The window of a row of taps is larger than shared memory.
TEST(Sm90WgradPlan, HasNoPlanWhereTheWindowDoesNotFit) {
  const Conv2dProblem p = problem_of("n1c8h8w9000 k8r1s3 dil=1,4000");
  EXPECT_EQ(reason(p), "");
  EXPECT_TRUE(wgrad::make_plans(p, h200(), false).empty());
}

TEST(Sm90WgradPlan, Prints) {
  std::ostringstream text;
  text << wgrad::make_plans(problem_of("n2c16h20w20 k16r3s3"), h200(), false).front();
  EXPECT_NE(text.str().find("wgrad instructions="), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("workspace="), std::string::npos) << text.str();
}

}  // namespace
}  // namespace haloconv::testing
