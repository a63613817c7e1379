// Weight and bias gradients as products of matrices: every plan exact on small integers, with the
// shared memory of a smaller chip too, in slices of tensors, with groups, near infinities; results
// repeat bit for bit. Needs a GPU of compute capability 8.0 or later, not torch.
#include <gtest/gtest.h>

#include <limits>

#include "cpp_tests/channels_last_fixtures.h"
#include "cpp_tests/plan_text.h"
#include "cpp_tests/slices.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

constexpr char kFamily[] = "implicit_gemm_wgrad";
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

class ImplicitGemmWgrad : public Sm80ChannelsLast {};

TEST_P(ImplicitGemmWgrad, IsExactOnSmallIntegers) { check_wgrad(kFamily, problem_, gpu()); }

// With one multiprocessor a block has many pixels.
TEST_P(ImplicitGemmWgrad, IsExactOnASmallerChip) {
  for (const int64_t kilobytes : {99, 163}) {
    Chip chip = with_shared_memory(kilobytes);
    chip.multiprocessors = 1;
    check_wgrad(kFamily, problem_, chip);
  }
}

TEST_P(ImplicitGemmWgrad, TakesSlices) {
  Conv2dProblem p = problem_;
  p.input = channels_last_slice(p.c, p.h, p.w);
  p.output = channels_last_slice(p.k, p.p(), p.q());
  check_wgrad(kFamily, p, gpu());
}

TEST_P(ImplicitGemmWgrad, TakesGroups) { check_wgrad(kFamily, in_groups(), gpu()); }

TEST_P(ImplicitGemmWgrad, LetsInfinitiesReachTheirTapsAlone) {
  Values grad_output = small_integers(output_count(problem_), 1);
  Values input = small_integers(input_count(problem_), 2);
  input.front() = std::numeric_limits<double>::infinity();
  input.back() = std::numeric_limits<double>::quiet_NaN();
  check_wgrad(kFamily, problem_, gpu(), grad_output, input);
  grad_output.back() = std::numeric_limits<double>::infinity();
  check_wgrad(kFamily, problem_, gpu(), grad_output, input);
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
             kFamily,
             {.problem = p, .direction = Direction::kWgrad, .chip = gpu(), .with_bias = true})) {
      DeviceTensor filter(positions(p.filter, p.k, p.c, p.r, p.s), p.type);
      DeviceTensor bias(positions({1, 1, 1, 1}, p.k, 1, 1, 1), p.type);
      Buffer workspace(of.plan->workspace_bytes);
      of.launch({.input = in.data(),
                 .output = out.data(),
                 .result = filter.data(),
                 .grad_bias = bias.data(),
                 .workspace = workspace.data()});
      bias.expect(reference_bias_grad(p, grad), text_of(p, of));
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
  const WgradCheck check(p, small_integers(output_count(p), 2), small_integers(input_count(p), 1));
  bool has_rounds = false;
  for (const FamilyPlan& of :
       plans_of(kFamily, {.problem = p, .direction = Direction::kWgrad, .chip = gpu()})) {
    has_rounds = has_rounds || of.says("splits=1 ");
    for (int run = 0; run < 2; ++run) check.run(of, false);
  }
  EXPECT_TRUE(has_rounds);
}

}  // namespace
}  // namespace haloconv::testing
