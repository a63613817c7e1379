// The planner of row_strips, and the kernel's index arithmetic, emulated on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/choice.h"
#include "conv2d/families/row_strips/arguments.h"
#include "conv2d/families/row_strips/plan.h"
#include "cpp_tests/families/row_strips/edge_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace row_strips;
using row_strips::Plan;

Conv2dProblem problem_of(const std::string& text, DataType type = DataType::kFloat32) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.type = type;
  return problem;
}

// The kernel's work in plain loops: the same arguments, packed filter, lines, words of a stage and
// shifts of the sums. What the kernel does not define is NaN. Which thread has which is not
// followed. T: as large as the elements.
template <class T>
class Emulation {
 public:
  Emulation(const Arguments& args, const Values& source, const Values& filter, Values& destination)
      : args_(args), source_(source), destination_(destination) {
    for (int32_t i = 0; i < args.packed_values<T>(); ++i) {
      const int64_t at = args.element<T>(i);
      packed_.push_back(at < 0 ? 0 : filter.at(static_cast<size_t>(at)));
    }
  }

  void run() {
    for (int32_t index = 0; index < args_.items; ++index) {
      const Item item = args_.item(index);
      ASSERT_LT(item.first_line, item.end_line);
      for (int32_t line = item.first_line; line < item.end_line;) {
        const Segment segment = args_.segment(line, item.end_line);
        ASSERT_GE(segment.lines, 1);
        sweep(item.band, segment);
        line += segment.lines;
      }
    }
  }

 private:
  // The sums of a pixel and a row of taps, by channel.
  double* sums(int32_t pixel, int32_t tap_row) {
    return &sums_[(static_cast<size_t>(pixel) * kRowTaps + tap_row) * kChannels];
  }
  // Those of a band's pixels that the destination has.
  int32_t pixels(int32_t band) const { return std::min(kBand, args_.width - band * kBand); }

  void sweep(int32_t band, const Segment& segment) {
    sums_.assign(size_t{kBand} * kWidth, 0);
    for (int32_t line = 0; line < args_.source_lines(segment); ++line) {
      const int32_t row = args_.source_row(segment, line);
      // Rows outside the source are zeros, and are left out.
      if (row >= 0 && row < args_.source_height) {
        for (int32_t chunk = 0; chunk < args_.blocks * args_.chunks; ++chunk) {
          multiply(band, chunk, load(band, segment.image, row, chunk));
        }
      }
      const int32_t complete = args_.complete_row(segment, line);
      if (complete >= 0 && complete < args_.height) write(band, segment.image, complete);
      shift();
    }
  }

  // The words of a stage, each of kPerWord<T> channels.
  std::vector<double> load(int32_t band, int32_t image, int32_t row, int32_t chunk) const {
    EXPECT_GE(args_.pitch, args_.vectors * kVector<T>);
    std::vector<double> words(size_t{kWordRows} * args_.pitch * kPerWord<T>, NAN);
    const int32_t first = args_.source_column(band);
    EXPECT_EQ(first % kVector<T>, 0);
    for (int32_t channel = 0; channel < kChunk<T>; ++channel) {
      for (int32_t i = 0; i < args_.vectors * kVector<T>; ++i) {
        const int32_t x = first + i;
        const bool exists = x >= 0 && x < args_.source_width;
        const size_t word = channel / kPerWord<T> * args_.pitch + i;
        words.at(word * kPerWord<T> + channel % kPerWord<T>) =
            exists ? source_.at(static_cast<size_t>(image * args_.source_n +
                                                    (chunk * kChunk<T> + channel) * args_.source_c +
                                                    row * args_.source_h + x))
                   : 0;
      }
    }
    return words;
  }

  void multiply(int32_t band, int32_t chunk, const std::vector<double>& words) {
    constexpr int32_t kHalf = kChunk<T> / 2;
    for (int32_t s = 0; s < args_.taps_w; ++s) {
      const auto step = size_t(chunk * args_.taps_w + s) * (kStepBytes / sizeof(T));
      for (int32_t channel = 0; channel < kChunk<T>; ++channel) {
        double weights[kWidth];
        for (int32_t column = 0; column < kWidth; ++column) {
          weights[column] =
              packed_.at(step + (channel / kHalf * kWidth + column) * kHalf + channel % kHalf);
        }
        for (int32_t pixel = 0; pixel < pixels(band); ++pixel) {
          const size_t word =
              channel / kPerWord<T> * args_.pitch + pixel + args_.offset + s * args_.column_step;
          const double value = words.at(word * kPerWord<T> + channel % kPerWord<T>);
          ASSERT_FALSE(std::isnan(value));
          double* const to = sums(pixel, 0);
          for (int32_t column = 0; column < kWidth; ++column) to[column] += value * weights[column];
        }
      }
    }
  }

  void shift() {
    for (int32_t pixel = 0; pixel < kBand; ++pixel) {
      for (int32_t tap_row = kRowTaps - 1; tap_row >= 0; --tap_row) {
        for (int32_t channel = 0; channel < kChannels; ++channel) {
          const double above = tap_row > 0 ? sums(pixel, tap_row - 1)[channel] : 0;
          sums(pixel, tap_row)[channel] = tap_row == args_.first_tap_row() ? 0 : above;
        }
      }
    }
  }

  void write(int32_t band, int32_t image, int32_t row) {
    for (int32_t pixel = 0; pixel < pixels(band); ++pixel) {
      for (int32_t c = 0; c < args_.rows; ++c) {
        double& to = destination_.at(
            static_cast<size_t>(image * args_.destination_n + c * args_.destination_c +
                                row * args_.destination_h + band * kBand + pixel));
        ASSERT_TRUE(std::isnan(to)) << "written twice";
        to = sums(pixel, kRowTaps - 1)[c];
      }
    }
  }

  const Arguments& args_;
  const Values& source_;
  Values& destination_;
  Values packed_;  // as the kernel reads it
  Values sums_;    // (pixel, row of taps, channel)
};

// The 16-bit types differ in their values alone.
constexpr DataType kEmulatedTypes[] = {DataType::kFloat32, DataType::kBFloat16};

class RowStripsEmulation : public ::testing::TestWithParam<TypedShape> {};

// By the planner's parts, and by parts of one line.
TEST_P(RowStripsEmulation, IsExactOnSmallIntegers) {
  const Conv2dProblem& p = GetParam().problem;
  const Values source = small_integers(output_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values expected = reference_dgrad(p, source, filter);
  const std::vector<Plan> plans = make_plans(p, Direction::kDgrad, h200());
  ASSERT_FALSE(plans.empty());
  for (Plan plan : plans) {
    for (const int sweeps : {plan.sweeps, 1 << 20}) {
      plan.sweeps = sweeps;
      const Arguments args = make_arguments(p, plan).value();
      EXPECT_LE(shared_bytes(args), kMaxShared);
      Values destination(expected.size(), NAN);
      if (p.type == DataType::kFloat32) {
        Emulation<float>(args, source, filter, destination).run();
      } else {
        Emulation<uint16_t>(args, source, filter, destination).run();
      }
      ASSERT_EQ(destination, expected) << p << " | " << plan;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, RowStripsEmulation,
                         ::testing::ValuesIn(row_strips_shapes(kEmulatedTypes)), name_of_typed);

TEST(RowStripsPlan, TakesTheProblemsThatItIsFor) {
  const auto plans = [](const char* text, DataType type = DataType::kFloat32,
                        Direction direction = Direction::kDgrad) {
    return make_plans(problem_of(text, type), direction, h200()).size();
  };
  const DataType bfloat16 = DataType::kBFloat16;
  EXPECT_EQ(plans("n8c32h512w512 k64r5s9"), 1u);  // the filter is too large for one block
  EXPECT_GE(plans("n8c32h512w512 k64r5s9", bfloat16), 1u);
  EXPECT_GE(plans("n8c64h512w512 k32r5s9", bfloat16, Direction::kFprop), 1u);
  EXPECT_EQ(plans("n8c33h512w512 k64r5s9", bfloat16), 0u);             // more channels
  EXPECT_EQ(plans("n8c32h512w512 k64r6s9", bfloat16), 0u);             // more rows of taps
  EXPECT_EQ(plans("n8c32h512w512 k64r5s7", bfloat16), 0u);             // other columns of taps
  EXPECT_EQ(plans("n8c32h512w512 k64r5s9 stride=2,2", bfloat16), 0u);  // strides
  EXPECT_EQ(plans("n8c32h512w512 k64r5s9 groups=2", bfloat16), 0u);    // groups
  EXPECT_EQ(plans("n8c32h512w514 k64r5s9", bfloat16), 0u);             // rows of no whole 16 bytes
  EXPECT_EQ(plans("n8c32h512w512 k60r5s9", bfloat16), 0u);             // channels of no whole chunk
  EXPECT_EQ(plans("n8c32h512w512 k512r5s9", bfloat16), 0u);         // weights beyond shared memory
  EXPECT_EQ(plans("n8c32h512w512 k64r5s9 dil=1,8", bfloat16), 0u);  // wider than the window
}

// The two reference problems that these kernels were made for, and the plan's printed form.
TEST(RowStripsPlan, IsTheFirstChoiceForTheReferenceProblems) {
  for (const Shape& shape : load_shapes("reference")) {
    if (shape.problem.s != 9) continue;
    for (const DataType type : kSm90Types) {
      Conv2dProblem p = shape.problem;
      p.type = type;
      const Choice choice = choose({.problem = p, .direction = Direction::kDgrad});
      ASSERT_EQ(choice.candidates.front().name(), "row_strips") << p;
      const haloconv::Plan& plan = *choice.candidates.front().plan;
      EXPECT_TRUE(plan.takes_bias);
      EXPECT_EQ(plan.rounds_to_tf32, type == DataType::kFloat32);
      EXPECT_EQ(plan.text().find("dgrad row_strips "), 0u) << plan.text();
    }
  }
}

TEST(RowStripsPlan, WantsTensorsAtWhole16Bytes) {
  Request request = {.problem = problem_of("n8c32h512w512 k64r5s9", DataType::kBFloat16),
                     .direction = Direction::kDgrad};
  EXPECT_FALSE(plans_of("row_strips", request).empty());
  request.is_aligned = false;
  EXPECT_TRUE(plans_of("row_strips", request).empty());
}

// The arguments that a plan keeps are those that it comes to.
TEST(RowStripsPlan, KeepsItsArguments) {
  const Conv2dProblem p = problem_of("n8c32h512w512 k64r5s9");
  const Plan plan = make_plans(p, Direction::kDgrad, h200()).front();
  const Arguments made = make_arguments(p, plan).value();
  EXPECT_EQ(plan.arguments->items, made.items);
  EXPECT_EQ(plan.arguments->sweep_lines, made.sweep_lines);
  EXPECT_EQ(plan.arguments->barriers_at, made.barriers_at);
}

}  // namespace
}  // namespace haloconv::testing
