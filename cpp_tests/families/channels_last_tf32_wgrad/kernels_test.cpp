// Weight gradients of float32 in TF32 with channels innermost: every plan exact on small integers,
// near infinities and NaN too, with tensors that are slices of others. Needs a Hopper GPU, not
// torch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ChannelsLastTf32Wgrad : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
    problem_ = GetParam().problem;
    problem_.set_dense_strides(true);
  }

  void check(const Conv2dProblem& p, const Values& grad_output, const Values& input) const {
    const Values expected = reference_padded_wgrad(p, grad_output, input);
    const Values expected_bias = reference_bias_grad(p, grad_output);
    DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    in.set(input);
    out.set(grad_output);
    for (const bool with_bias : {false, true}) {
      const std::vector<FamilyPlan> plans = plans_of(
          "channels_last_tf32_wgrad",
          {.problem = p, .direction = Direction::kWgrad, .chip = gpu(), .with_bias = with_bias});
      EXPECT_FALSE(plans.empty()) << p;
      for (const FamilyPlan& of : plans) {
        std::ostringstream what;
        what << p << " | " << of;
        DeviceTensor filter(positions(p.filter, p.k, p.c, p.r, p.s), p.type);
        DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
        Buffer workspace(of.plan->workspace_bytes);
        of.launch({.input = in.data(),
                   .output = out.data(),
                   .result = filter.data(),
                   .grad_bias = bias.data(),
                   .workspace = workspace.data()});
        filter.expect(expected, what.str());
        if (with_bias) bias.expect(expected_bias, what.str() + " bias");
        EXPECT_TRUE(workspace.guards_are_whole()) << what.str() << ": wrote outside its workspace";
        if (HasFailure()) return;
      }
    }
  }

  Conv2dProblem problem_;
};

TEST_P(ChannelsLastTf32Wgrad, IsExactOnSmallIntegers) {
  check(problem_, small_integers(output_count(problem_), 1),
        small_integers(input_count(problem_), 2));
}

// The last pixel of a row, and of an image, are where patches reach beyond grad_output.
TEST_P(ChannelsLastTf32Wgrad, LetsInfinitiesReachTheirTapsAlone) {
  Values grad_output = small_integers(output_count(problem_), 1);
  Values input = small_integers(input_count(problem_), 2);
  const auto size = static_cast<size_t>(problem_.h * problem_.w);
  input[size - 1] = kInfinity;                                     // n = 0, c = 0
  input[size + static_cast<size_t>(problem_.w) - 1] = -kInfinity;  // c = 1
  input[2 * size] = std::numeric_limits<double>::quiet_NaN();      // c = 2
  check(problem_, grad_output, input);
  grad_output.back() = kInfinity;
  check(problem_, grad_output, input);
}

// Slices of tensors with more channels, columns, rows.
TEST_P(ChannelsLastTf32Wgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  const auto spread = [](int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = c + 8, row = pixel * (w + 1), image = row * (h + 2);
    return Strides{.n = image, .c = 1, .h = row, .w = pixel};
  };
  p.input = spread(p.c, p.h, p.w);
  p.output = spread(p.k, p.p(), p.q());
  check(p, small_integers(output_count(p), 1), small_integers(input_count(p), 2));
}

INSTANTIATE_TEST_SUITE_P(Eights, ChannelsLastTf32Wgrad,
                         ::testing::ValuesIn(typed_shapes("eights", kTypes)),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace haloconv::testing
