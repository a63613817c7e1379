// The planner of unpacked, and the kernel's index arithmetic, emulated on the host.
#include "conv2d/families/unpacked/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "chip/known_chips.h"
#include "conv2d/choice.h"
#include "cpp_tests/families/unpacked/edge_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {
namespace {

using namespace unpacked;
using unpacked::Plan;

Conv2dProblem problem_of(const std::string& text) { return parse_shape("a " + text).problem; }

// The kernel's work in plain loops: windows as the copy engine brings them, the table, the pixels'
// places, and where each share's sums are written. Which thread has which is not followed.
class Emulation {
 public:
  Emulation(const Conv2dProblem& problem, const Plan& plan, const Values& input,
            const Values& filter)
      : p_(problem), plan_(plan), args_(plan.args), input_(input), filter_(filter) {}

  // The results; NaN where nothing was written.
  Values run() {
    const Tile& tile = plan_.tile;
    const int64_t results = output_count(p_);
    written_.assign(static_cast<size_t>(args_.splits * results), NAN);
    const int32_t in_image = args_.log_columns + args_.log_rows;
    for (int32_t number = 0; number < args_.tiles * args_.splits; ++number) {
      const int32_t split = number / args_.tiles;
      int32_t rest = number % args_.tiles;
      const auto take = [&](const FastDiv& count) {
        const int32_t taken = rest % count.divisor;
        rest /= count.divisor;
        return taken;
      };
      const int32_t channel = take(args_.channel_tiles) * tile.channels;
      const int32_t column = take(args_.column_tiles) << args_.log_columns;
      const int32_t row = take(args_.row_tiles) << args_.log_rows;
      const int32_t image = rest * (tile.pixels >> in_image);
      for (int32_t pixel = 0; pixel < tile.pixels; ++pixel) {
        const int32_t q = column + (pixel & ((1 << args_.log_columns) - 1));
        const int32_t y = row + (pixel >> args_.log_columns & ((1 << args_.log_rows) - 1));
        const int32_t n = image + (pixel >> in_image);
        if (n >= args_.images || y >= args_.rows || q >= args_.columns) continue;
        const Values values = values_of(split, image, row, column, pixel);
        for (int32_t k = channel; k < std::min(channel + tile.channels, args_.channels); ++k) {
          const int64_t at = split * args_.split_step + n * args_.image_step +
                             k * args_.channel_step + y * args_.row_step + q;
          double& to = written_.at(static_cast<size_t>(at));
          EXPECT_TRUE(std::isnan(to)) << "written twice";
          to = sum(split, values, k);
        }
      }
    }
    Values sums(static_cast<size_t>(results), 0);
    for (size_t i = 0; i < written_.size(); ++i) sums[i % sums.size()] += written_[i];
    return sums;
  }

 private:
  // What a pixel meets over the depth of a split.
  Values values_of(int32_t split, int32_t image, int32_t row, int32_t column, int32_t pixel) const {
    const int32_t first = split * args_.split_stages;
    const int32_t end = std::min(args_.stages, first + args_.split_stages);
    const int32_t in_image = args_.log_columns + args_.log_rows;
    const int32_t pixel_at =
        args_.lead_bytes + (pixel >> in_image) * args_.image_bytes +
        (pixel >> args_.log_columns & ((1 << args_.log_rows) - 1)) * args_.row_bytes +
        (pixel & ((1 << args_.log_columns) - 1)) * args_.column_bytes;
    Values values;
    for (int32_t depth = first * kStageDepth; depth < end * kStageDepth; ++depth) {
      const int32_t of_window = args_.window_steps * kStepDepth;
      const int32_t window = depth / of_window, in_window = depth % of_window;
      const int32_t channel = in_window / args_.taps.divisor, tap = in_window % args_.taps.divisor;
      const int32_t at = pixel_at + channel * args_.channel_bytes +
                         tap / args_.taps_w.divisor * args_.tap_row_bytes +
                         tap % args_.taps_w.divisor * args_.tap_column_bytes;
      values.push_back(of_box(image, window * args_.window_channels,
                              row * args_.step_h + args_.first_h,
                              column * args_.step_w + args_.first_w, at));
    }
    return values;
  }

  // Their products with a filter; beyond its end the copy engine brings zeros.
  double sum(int32_t split, const Values& values, int32_t k) const {
    const auto depths = static_cast<size_t>(p_.c * p_.r * p_.s);
    const size_t first = static_cast<size_t>(split) * args_.split_stages * kStageDepth;
    double sum = 0;
    for (size_t i = 0; i < values.size() && first + i < depths; ++i) {
      sum += values[i] * filter_[k * depths + first + i];
    }
    return sum;
  }

  // What a window that begins there has at this byte.
  double of_box(int32_t n, int32_t c, int32_t h, int32_t w, int32_t at) const {
    const Box& box = plan_.box;
    EXPECT_EQ(w % 4, 0);
    EXPECT_GE(at, 0);
    EXPECT_LT(at, box.bytes());
    int64_t i = at / 4;
    const auto take = [&](int32_t extent) {
      const int64_t taken = i % extent;
      i /= extent;
      return taken;
    };
    const int64_t x = w + take(box.columns), y = h + take(box.rows),
                  channel = c + take(box.channels), image = n + i;
    if (x < 0 || x >= p_.w || y < 0 || y >= p_.h || channel >= p_.c || image >= p_.n) return 0;
    return input_.at(static_cast<size_t>(((image * p_.c + channel) * p_.h + y) * p_.w + x));
  }

  const Conv2dProblem& p_;
  const Plan& plan_;
  const Arguments& args_;
  const Values &input_, &filter_;
  Values written_;
};

class UnpackedEmulation : public ::testing::TestWithParam<TypedShape> {};

TEST_P(UnpackedEmulation, IsExactOnSmallIntegers) {
  const Conv2dProblem& p = GetParam().problem;
  const Values input = small_integers(input_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values expected = reference_fprop(p, input, filter, {});
  ASSERT_EQ(declines(p), "");
  const std::vector<Plan> plans = make_plans(p, h200());
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) {
    EXPECT_LE(shared_bytes(plan.args, plan.tile), kMostShared);
    ASSERT_EQ(Emulation(p, plan, input, filter).run(), expected) << text_of(p, plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, UnpackedEmulation, ::testing::ValuesIn(unpacked_shapes()),
                         name_of_typed);

TEST(UnpackedPlan, DeclinesWhatTheCopyEngineDoesNotTake) {
  EXPECT_EQ(declines(problem_of("n2c8h8w8 k8r4s4 stride=2,2 pad=1,1,1,1")), "");
  EXPECT_NE(declines(problem_of("n2c8h8w9 k8r4s4 stride=2,2")), "");  // rows
  EXPECT_NE(declines(problem_of("n2c3h8w8 k8r3s3 stride=2,2")), "");  // filters of 27 elements
  EXPECT_NE(declines(problem_of("n2c8h8w8 k8r3s3 stride=2,2 groups=2")), "");
  EXPECT_NE(declines(problem_of("n2c8h8w8 k8r3s3 pad=1,1,1,1")), "");
  Conv2dProblem turned = problem_of("n2c8h8w8 k8r3s3 stride=2,2");
  turned.filter = nhwc_strides(8, 3, 3);
  EXPECT_NE(declines(turned), "");
}

TEST(UnpackedPlan, IsOfForwardPassesInTf32) {
  Request request = {.problem = problem_of("n4c512h64w64 k1024r2s2 stride=2,2")};
  const std::vector<FamilyPlan> plans = plans_of("unpacked", request);
  ASSERT_FALSE(plans.empty());
  EXPECT_TRUE(plans.front().plan->takes_bias);
  EXPECT_TRUE(plans.front().plan->rounds_to_tf32);
  EXPECT_TRUE(plans.front().says("fprop unpacked tile="));
  request.is_aligned = false;
  EXPECT_TRUE(plans_of("unpacked", request).empty());
  request.is_aligned = true;
  request.tf32 = false;
  EXPECT_TRUE(plans_of("unpacked", request).empty());
  request.tf32 = true;
  request.direction = Direction::kDgrad;
  EXPECT_TRUE(plans_of("unpacked", request).empty());
}

}  // namespace
}  // namespace haloconv::testing
