// Weight and bias gradients as products of matrices: every plan exact on small integers, with the
// shared memory of a smaller chip too, in slices of tensors, with groups, near infinities; results
// repeat bit for bit. Needs a GPU of compute capability 8.0 or later, not torch.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

class ImplicitGemmWgrad : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability < 80) {
      GTEST_SKIP() << "needs a GPU of compute capability 8.0 or later";
    }
    problem_ = GetParam().problem;
    problem_.set_dense_strides(true);
  }

  void check(const Conv2dProblem& p, const Chip& chip, const Values& grad_output,
             const Values& input) const {
    const Values expected = reference_padded_wgrad(p, grad_output, input);
    const Values expected_bias = reference_bias_grad(p, grad_output);
    DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    in.set(input);
    out.set(grad_output);
    for (const bool with_bias : {false, true}) {
      const std::vector<FamilyPlan> plans = plans_of(
          "implicit_gemm_wgrad",
          {.problem = p, .direction = Direction::kWgrad, .chip = chip, .with_bias = with_bias});
      EXPECT_FALSE(plans.empty()) << p;
      for (const FamilyPlan& of : plans) {
        std::ostringstream what;
        what << p << " | " << of;
        DeviceTensor filter(positions(p.filter, p.k, p.group_c(), p.r, p.s), p.type);
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

  void check_integers(const Conv2dProblem& p, const Chip& chip) const {
    check(p, chip, small_integers(output_count(p), 1), small_integers(input_count(p), 2));
  }

  Conv2dProblem problem_;
};

TEST_P(ImplicitGemmWgrad, IsExactOnSmallIntegers) { check_integers(problem_, gpu()); }

// With one multiprocessor a block has many pixels.
TEST_P(ImplicitGemmWgrad, IsExactOnASmallerChip) {
  for (const int64_t kilobytes : {99, 163}) {
    Chip chip = gpu();
    chip.multiprocessors = 1;
    chip.shared_bytes_per_block = kilobytes << 10;
    chip.shared_bytes_per_multiprocessor = (kilobytes + 1) << 10;
    check_integers(problem_, chip);
  }
}

// Slices of tensors with more channels, columns, rows.
TEST_P(ImplicitGemmWgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  const auto spread = [](int64_t c, int64_t h, int64_t w) {
    const int64_t pixel = c + 8, row = pixel * (w + 1), image = row * (h + 2);
    return Strides{.n = image, .c = 1, .h = row, .w = pixel};
  };
  p.input = spread(p.c, p.h, p.w);
  p.output = spread(p.k, p.p(), p.q());
  check_integers(p, gpu());
}

TEST_P(ImplicitGemmWgrad, TakesGroups) {
  Conv2dProblem p = problem_;
  p.groups = p.c % 16 == 0 && p.k % 16 == 0 ? 2 : 1;
  p.set_dense_strides(true);
  check_integers(p, gpu());
}

TEST_P(ImplicitGemmWgrad, LetsInfinitiesReachTheirTapsAlone) {
  Values grad_output = small_integers(output_count(problem_), 1);
  Values input = small_integers(input_count(problem_), 2);
  input.front() = std::numeric_limits<double>::infinity();
  input.back() = std::numeric_limits<double>::quiet_NaN();
  check(problem_, gpu(), grad_output, input);
  grad_output.back() = std::numeric_limits<double>::infinity();
  check(problem_, gpu(), grad_output, input);
}

INSTANTIATE_TEST_SUITE_P(Eights, ImplicitGemmWgrad,
                         ::testing::ValuesIn(typed_shapes("eights", kTypes)), name_of_typed);

// Of float32, whose products are rounded to TF32, the bias gradient is a sum of what was given.
TEST(ImplicitGemmWgradBias, IsNotRounded) {
  if (!has_gpu() || gpu().compute_capability < 80) {
    GTEST_SKIP() << "needs a GPU of compute capability 8.0 or later";
  }
  for (const bool channels_last : {false, true}) {
    Conv2dProblem p = parse_shape("a n2c16h9w8 k24r3s3 pad=1,1,1,1").problem;
    p.set_dense_strides(channels_last);
    Values grad = small_integers(output_count(p), 1);
    lengthen(grad);
    DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), p.type);
    DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
    in.set(Values(static_cast<size_t>(input_count(p))));
    out.set(grad);
    for (const FamilyPlan& of : plans_of(
             "implicit_gemm_wgrad",
             {.problem = p, .direction = Direction::kWgrad, .chip = gpu(), .with_bias = true})) {
      DeviceTensor filter(positions(p.filter, p.k, p.c, p.r, p.s), p.type);
      DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = in.data(),
                 .output = out.data(),
                 .result = filter.data(),
                 .grad_bias = bias.data(),
                 .workspace = workspace.data()});
      std::ostringstream what;
      what << of;
      bias.expect(reference_bias_grad(p, grad), what.str());
    }
  }
}

// Many thousands of pixels a block, so that sums move to the workspace several times.
TEST(ImplicitGemmWgradRounds, AreExactAndRepeat) {
  if (!has_gpu() || gpu().compute_capability < 80) {
    GTEST_SKIP() << "needs a GPU of compute capability 8.0 or later";
  }
  Conv2dProblem p = parse_shape("a n3c16h61w63 k24r1s1").problem;
  p.type = DataType::kFloat32;
  p.set_dense_strides(true);
  const Values input = small_integers(input_count(p), 1), grad = small_integers(output_count(p), 2);
  const Values expected = reference_wgrad(p, grad, input);
  DeviceTensor in(positions(p.input, p.n, p.c, p.h, p.w), p.type);
  DeviceTensor out(positions(p.output, p.n, p.k, p.p(), p.q()), p.type);
  in.set(input);
  out.set(grad);
  bool has_rounds = false;
  for (const FamilyPlan& of : plans_of(
           "implicit_gemm_wgrad", {.problem = p, .direction = Direction::kWgrad, .chip = gpu()})) {
    has_rounds = has_rounds || of.says("splits=1 ");
    for (int run = 0; run < 2; ++run) {
      DeviceTensor filter(positions(p.filter, p.k, p.c, p.r, p.s), p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = in.data(),
                 .output = out.data(),
                 .result = filter.data(),
                 .workspace = workspace.data()});
      std::ostringstream what;
      what << of;
      filter.expect(expected, what.str());
    }
  }
  EXPECT_TRUE(has_rounds);
}

}  // namespace
}  // namespace haloconv::testing
