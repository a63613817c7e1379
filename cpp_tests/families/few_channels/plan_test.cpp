// The planner of the Hopper kernels for few destination channels, and the kernel's index
// arithmetic, emulated on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "chip/known_chips.h"
#include "conv2d/choice.h"
#include "conv2d/families.h"
#include "conv2d/families/few_channels/arguments.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

using few_channels::Arguments;
using few_channels::Plan;

Conv2dProblem problem_of(const std::string& text) { return parse_shape("a " + text).problem; }

std::optional<Plan> plan_of(const Conv2dProblem& whole, Direction direction) {
  if (!hopper_rows_decline(whole, direction, h200()).empty()) return std::nullopt;
  return few_channels::make_plan(flattened(whole), direction, h200());
}

// The kernel's work in plain loops: the same arguments, packed filter, lines, shifts of the
// accumulators and staged products. What the kernel does not define is NaN. T: as large as the
// elements.
template <class T>
class Emulation {
 public:
  Emulation(const Arguments& args, const Values& source, const Values& filter, const Values& bias,
            Values& destination)
      : args_(args), source_(source), bias_(bias), destination_(destination) {
    for (int32_t i = 0; i < args.packed_values<T>(); ++i) {
      const int64_t at = args.element<T>(i);
      packed_.push_back(at < 0 ? 0 : filter.at(static_cast<size_t>(at)));
    }
  }

  void run() {
    fringe_.assign(static_cast<size_t>(2 * args_.fringe_row(1, 0, 0)), NAN);
    for (uint32_t index = 0; index < args_.items; ++index) {
      const few_channels::Item item = args_.item(index);
      ASSERT_LT(item.first_line, item.end_line);
      sums_.assign(size_t{few_channels::kWindow} * width(), NAN);
      shift();
      for (int32_t line = item.first_line; line < item.end_line;) {
        const few_channels::Segment segment = args_.segment(line, item.end_line);
        ASSERT_GE(segment.lines, 1);
        sweep(item.band, segment);
        line += segment.lines;
      }
    }
    add_fringe();
  }

 private:
  int32_t width() const { return args_.row_taps * args_.columns; }
  double& sum(int32_t pixel, int32_t column) {
    return sums_.at(static_cast<size_t>(pixel) * width() + column);
  }

  void sweep(int32_t band, const few_channels::Segment& segment) {
    for (int32_t line = 0; line < args_.source_lines(segment); ++line) {
      add(band, segment.image, args_.source_row(segment, line));
      const int32_t complete = line - (args_.taps_h - 1);
      const int32_t row = segment.first_row + complete * args_.row_step;
      if (complete >= 0 && row < args_.height) {
        for (int32_t i = 0; i < args_.band_columns; ++i) write(band, segment.image, row, i);
        for (int32_t i = 0; i < args_.fringe_columns(); ++i) {
          write(band, segment.image, row, args_.column_beside(i));
        }
      }
      shift();
    }
  }

  void add(int32_t band, int32_t image, int32_t row) {
    if (row < 0 || row >= args_.source_height) return;  // zeros
    const int32_t first = args_.source_column(band);
    // Of 16-bit types what a copy brings from before the row's first column is no pixel.
    ASSERT_TRUE(sizeof(T) == 4 || first >= 0);
    for (int32_t channel = 0; channel < args_.channels; ++channel) {
      const int32_t shift = args_.shift(image, channel, row, first);
      // As the math threads and as the load threads take it.
      const int32_t of_math = sizeof(T) == 4 ? channel % 4 : channel % 8;
      ASSERT_EQ(shift, args_.shift(image, of_math, row, first));
      ASSERT_EQ(shift, args_.shift(image, channel % (sizeof(T) == 4 ? 2 : 8), row, first));
      ASSERT_EQ(shift % 2, 0);
      const int64_t row_at =
          image * args_.source_n + channel * args_.source_c + row * args_.source_h;
      for (int32_t pixel = 0; pixel < args_.band_columns; ++pixel) {
        const int32_t x = first + pixel;
        if (x < 0 || x >= args_.source_width) continue;
        // In shared memory: what one copy of `vector` columns brings to it.
        const int32_t copy = (pixel + shift) / args_.vector * args_.vector;
        const int32_t copied_x = first + copy - shift;
        ASSERT_LT(pixel + shift, few_channels::kWindow + args_.vector);
        ASSERT_EQ((args_.source_at + row_at + copied_x) % args_.vector, 0);
        const bool is_copied = copy - shift < args_.band_columns;
        const double value = is_copied ? source_.at(static_cast<size_t>(row_at + x)) : NAN;
        constexpr int32_t kHalf = few_channels::kStepChannels<T> / 2;
        for (int32_t column = 0; column < width(); ++column) {
          const int32_t at = (channel / kHalf * width() + column) * kHalf + channel % kHalf;
          sum(pixel, column) += value * packed_.at(static_cast<size_t>(at));
        }
      }
    }
  }

  void shift() {
    for (int32_t pixel = 0; pixel < few_channels::kWindow; ++pixel) {
      for (int32_t column = width() - 1; column >= 0; --column) {
        const int32_t tap_row = column / args_.columns;
        const double above = tap_row > 0 ? sum(pixel, column - args_.columns) : NAN;
        sum(pixel, column) = tap_row == args_.first_tap_row() ? 0 : above;
      }
    }
  }

  void write(int32_t band, int32_t image, int32_t row, int32_t i) {
    const few_channels::Column column = args_.column_of(band, i);
    if (!column.exists) return;
    check_other_taps(column, i);
    for (int32_t c = 0; c < args_.rows; ++c) {
      const bool has_bias = !bias_.empty() && (!column.is_fringe || column.side == 0);
      double result = has_bias ? bias_.at(static_cast<size_t>(c)) : 0;
      for (int32_t tap = args_.first_tap(i); tap < args_.end_tap(i); ++tap) {
        const int32_t pixel = args_.pixel_of(i, tap);
        ASSERT_LT(pixel, args_.band_columns);
        result += sum(pixel, (args_.row_taps - 1) * args_.columns + tap * args_.tap_columns + c);
      }
      double& to = column.is_fringe
                       ? fringe_.at(static_cast<size_t>(args_.fringe_at(column, image, row) +
                                                        c * args_.fringe_columns()))
                       : destination_.at(static_cast<size_t>(
                             image * args_.destination_n + c * args_.destination_c +
                             row * args_.destination_h + column.x * args_.destination_w));
      ASSERT_TRUE(std::isnan(to)) << "written twice";
      to = result;
    }
  }

  // Those that the band does not have: of the fringe they are the neighbour's; else they lie on
  // padding, and zeros.cuh has what they add.
  void check_other_taps(const few_channels::Column& column, int32_t i) const {
    for (int32_t tap = 0; tap < args_.taps_w; ++tap) {
      if (tap >= args_.first_tap(i) && tap < args_.end_tap(i)) continue;
      const int32_t x = column.x + args_.first_column + tap * args_.column_step;
      const int32_t pixel =
          args_.pixel_of(i, tap) + (column.side == 0 ? -args_.band_columns : args_.band_columns);
      if (column.is_fringe) {
        ASSERT_TRUE(pixel >= 0 && pixel < args_.band_columns) << column.x << " tap " << tap;
      } else {
        ASSERT_TRUE(x < 0 || x >= args_.source_width) << column.x << " tap " << tap;
      }
    }
  }

  void add_fringe() {
    const int32_t columns = args_.fringe_columns();
    for (int32_t image = 0; image < args_.images; ++image) {
      for (int32_t row = 0; row < args_.height; ++row) {
        for (int32_t i = 0; i < (args_.bands - 1) * args_.rows * columns; ++i) {
          const int32_t boundary = i / columns / args_.rows, c = i / columns % args_.rows;
          const int32_t x = (boundary + 1) * args_.band_columns - args_.fringe_left + i % columns;
          if (x >= args_.width) continue;
          double& to = destination_.at(
              static_cast<size_t>(image * args_.destination_n + c * args_.destination_c +
                                  row * args_.destination_h + x * args_.destination_w));
          ASSERT_TRUE(std::isnan(to)) << "written twice";
          to = fringe_.at(static_cast<size_t>(args_.fringe_row(0, image, row) + i)) +
               fringe_.at(static_cast<size_t>(args_.fringe_row(1, image, row) + i));
        }
      }
    }
  }

  const Arguments& args_;
  const Values &source_, &bias_;
  Values& destination_;
  Values packed_;  // as the kernel reads it
  Values sums_;    // (pixel, tap_row, column)
  Values fringe_;
};

// Parts of one line, of the planner's lines and of all lines.
void check_type(const Conv2dProblem& whole, Direction direction) {
  const std::optional<Plan> made = plan_of(whole, direction);
  if (!made) return;
  const bool fprop = direction == Direction::kFprop;
  const Conv2dProblem p = flattened(whole);
  const Values source = small_integers(fprop ? input_count(p) : output_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values bias = fprop ? small_integers(p.k, 3) : Values{};
  const Values expected =
      fprop ? reference_fprop(p, source, filter, bias) : reference_dgrad(p, source, filter);
  for (const int sweeps : {made->sweeps, 1, 1 << 20}) {
    Plan plan = *made;
    plan.sweeps = sweeps;
    const std::optional<Arguments> args = few_channels::make_arguments(p, plan);
    ASSERT_TRUE(args) << p << plan;
    Values destination(expected.size(), NAN);
    if (p.type == DataType::kFloat32) {
      Emulation<float>(*args, source, filter, bias, destination).run();
    } else {
      Emulation<uint16_t>(*args, source, filter, bias, destination).run();
    }
    ASSERT_EQ(destination, expected) << p << " | " << plan;
  }
}

// The 16-bit types differ in their values alone.
void check(Conv2dProblem problem, Direction direction) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    problem.type = type;
    check_type(problem, direction);
  }
}

class Sm90ScatterEmulation : public ::testing::TestWithParam<Shape> {};

TEST_P(Sm90ScatterEmulation, IsExactOnSmallIntegers) {
  for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
    check(GetParam().problem, direction);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, Sm90ScatterEmulation, ::testing::ValuesIn(load_shapes("edges")),
                         name_of_shape);

// Widths around the ends of bands, and what makes bands narrow.
TEST(Sm90ScatterEmulationOfBands, CoversWidthsAroundTheEnds) {
  for (const char* rest : {" k9r3s3", " k9r3s3 pad=1,1,1,1", " k3r2s3 pad=0,0,7,9 dil=1,30",
                           " k5r5s4 pad=9,0,2,1 dil=2,3"}) {
    for (const int width : {120, 122, 247, 248, 249, 250, 252, 254, 255, 256, 257, 258,
                            259, 260, 262, 263, 264, 266, 268, 511, 514, 515, 516}) {
      check(problem_of("n2c2h9w" + std::to_string(width) + rest), Direction::kDgrad);
      if (HasFailure()) return;
    }
  }
}

// Lines of a residue that has a row less are none of the destination's.
TEST(Sm90ScatterEmulationOfBands, SweepsEveryResidueOfADilation) {
  for (const char* text : {"n2c3h5w6 k9r3s3 pad=7,7,7,7 dil=6,7", "n3c3h11w9 k9r3s2 dil=4,1",
                           "n1c2h13w9 k5r4s1 pad=2,6,0,0 dil=3,1"}) {
    check(problem_of(text), Direction::kDgrad);
    check(problem_of(text), Direction::kFprop);
    if (HasFailure()) return;
  }
}

TEST(Sm90ScatterPlan, TakesTheProblemsThatItIsFor) {
  int taken = 0;
  for (const char* file :
       {"reference", "edges", "layers", "networks", "transposed", "one_dimensional"}) {
    for (const Shape& shape : load_shapes(file)) {
      for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
        const std::optional<Plan> plan = plan_of(shape.problem, direction);
        if (!plan) continue;
        ++taken;
        const Conv2dProblem p = flattened(shape.problem);
        const Arguments args = few_channels::make_arguments(p, *plan).value();
        EXPECT_LE(few_channels::shared_bytes(args), kMaxShared) << shape << *plan;
        EXPECT_GE(plan->stages, few_channels::kMinStages) << shape << *plan;
        EXPECT_LE(plan->stages, 6) << shape << *plan;
        EXPECT_EQ(plan->workspace_bytes, few_channels::workspace_bytes(args)) << shape << *plan;
        EXPECT_LE(args.band_columns, few_channels::kWindow) << shape << *plan;
        EXPECT_GE(int64_t{args.bands} * args.band_columns, args.width) << shape << *plan;
        EXPECT_GE(int64_t{args.sweeps} * args.sweep_lines, args.lines) << shape << *plan;
        EXPECT_GT(plan->estimated_ms, 0) << shape << *plan;
      }
    }
  }
  EXPECT_GT(taken, 20);
}

TEST(Sm90ScatterPlan, DeclinesOthers) {
  const auto takes = [](const char* text, Direction direction) {
    return plan_of(problem_of(text), direction).has_value();
  };
  EXPECT_TRUE(takes("n2c16h99w99 k128r3s3", Direction::kDgrad));
  EXPECT_TRUE(takes("n2c64h99w99 k3r3s3", Direction::kFprop));
  EXPECT_FALSE(takes("n2c17h99w99 k128r3s3", Direction::kDgrad));  // more products than columns
  EXPECT_FALSE(takes("n2c2h99w99 k128r6s3", Direction::kDgrad));   // more rows of taps
  EXPECT_FALSE(takes("n2c16h99w99 k128r3s3 stride=2,1", Direction::kDgrad));
  EXPECT_FALSE(takes("n2c16h99w99 k128r3s3 groups=2", Direction::kDgrad));
  EXPECT_FALSE(takes("n2c16h99w99 k512r3s3", Direction::kDgrad));  // weights beyond shared memory
  EXPECT_FALSE(takes("n2c3h9w600 k9r3s3 dil=1,120", Direction::kDgrad));  // wider than a band
  EXPECT_FALSE(takes("n1073741824c1h1w1 k8r3s1 pad=1,1,0,0", Direction::kDgrad));
}

// The reference problem that these kernels were made for, and the plan's printed form.
TEST(Sm90ScatterPlan, IsTheFirstChoiceForTheReferenceProblem) {
  Conv2dProblem p = problem_of("n16c16h1024w1024 k128r3s3");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    p.type = type;
    const Choice choice = choose({.problem = p, .direction = Direction::kDgrad});
    ASSERT_EQ(choice.candidates.front().name(), "few_channels");
    const haloconv::Plan& plan = *choice.candidates.front().plan;
    EXPECT_FALSE(plan.takes_fusion);
    EXPECT_EQ(plan.rounds_to_tf32, type == DataType::kFloat32);
    EXPECT_EQ(plan.text().find("dgrad few_channels taps=3x48 shuffled sweeps="), 0u) << plan.text();
    // Others are timed beside it.
    EXPECT_EQ(choice.candidates[1].name(), "halo");
  }
}

// Copies of 16 bytes have to begin at such, and pairs of pixels to stay together.
TEST(Sm90ScatterPlan, Of16BitTypesWantsRowsAtEvenElements) {
  const auto declined = [](const char* text, bool is_aligned) {
    Request request = {.problem = problem_of(text), .direction = Direction::kDgrad};
    request.problem.type = DataType::kFloat16;
    request.is_aligned = is_aligned;
    for (const Family* family : families()) {
      if (family->name == "few_channels") return family->ask(request).declined;
    }
    return std::string("no such family");
  };
  EXPECT_EQ(declined("n2c16h99w100 k128r3s3", true), "");
  EXPECT_NE(declined("n2c16h99w100 k128r3s3", false).find("16 bytes"), std::string::npos);
  EXPECT_NE(declined("n2c16h99w99 k128r3s3", true).find("odd elements"), std::string::npos);
}

// The arguments that a plan keeps are those that it comes to.
TEST(Sm90ScatterPlan, KeepsItsArguments) {
  const Conv2dProblem p = problem_of("n16c16h1024w1024 k128r3s3");
  const Plan plan = plan_of(p, Direction::kDgrad).value();
  const Arguments made = few_channels::make_arguments(flattened(p), plan).value();
  EXPECT_EQ(plan.arguments->items, made.items);
  EXPECT_EQ(plan.arguments->sweep_lines, made.sweep_lines);
  EXPECT_EQ(plan.arguments->barriers_at, made.barriers_at);
}

}  // namespace
}  // namespace haloconv::testing
