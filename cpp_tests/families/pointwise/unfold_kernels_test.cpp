// Strided problems unfolded to filters of one tap: every plan exact on small integers, in all
// directions, and with what is not finite. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include <cmath>

#include "cpp_tests/families/pointwise/unfold_shapes.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/wgrad_check.h"

namespace haloconv::testing {
namespace {

class PointwiseUnfoldKernels : public ::testing::TestWithParam<UnfoldShape> {
 protected:
  void SetUp() override {
    if (!has_gpu() || gpu().compute_capability != 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  }

  static void check(const Conv2dProblem& p, Direction direction, const Values& source_values,
                    const Values& filter_values) {
    const bool fprop = direction == Direction::kFprop;
    const Values bias = fprop ? small_integers(p.k, 3) : Values();
    const Values expected = fprop ? reference_fprop(p, source_values, filter_values, bias)
                                  : reference_dgrad(p, source_values, filter_values);
    GatherCheck(p, direction, source_values, filter_values, bias)
        .run_plans("pointwise", gpu(), expected);
  }

  // The input's rows, planes and images apart.
  static Conv2dProblem apart(Conv2dProblem p, int64_t gap) {
    const int64_t row = p.w + gap, plane = row * p.h + gap;
    p.input = {.n = plane * p.c + gap, .c = plane, .h = row, .w = 1};
    return p;
  }
};

TEST_P(PointwiseUnfoldKernels, AreExact) {
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    for (const int64_t gap : {0, 1, 2, 4}) {
      const Conv2dProblem p = apart(problem_of(GetParam(), type), gap);
      const Values filter = small_integers(filter_count(p), 2);
      if (GetParam().has_fprop) {
        check(p, Direction::kFprop, small_integers(input_count(p), 1), filter);
      }
      if (GetParam().has_dgrad) {
        check(p, Direction::kDgrad, small_integers(output_count(p), 1), filter);
      }
      check_wgrad("pointwise", p, gpu());
      if (HasFailure()) return;
    }
  }
  // Of float32 the filter's gradient alone.
  for (const int64_t gap : {0, 1, 2}) {
    check_wgrad("pointwise", apart(problem_of(GetParam(), DataType::kFloat32), gap), gpu());
    if (HasFailure()) return;
  }
}

TEST_P(PointwiseUnfoldKernels, LetWhatIsNotFiniteReachItsTapsAlone) {
  const Conv2dProblem p = problem_of(GetParam());
  const Values filter = small_integers(filter_count(p), 2);
  Values input = small_integers(input_count(p), 1);
  make_some_not_finite(input, p.n, p.c, p.h, p.w);
  if (GetParam().has_fprop) check(p, Direction::kFprop, input, filter);
  if (GetParam().has_dgrad) {
    Values grad_output = small_integers(output_count(p), 1);
    make_some_not_finite(grad_output, p.n, p.k, p.p(), p.q());
    check(p, Direction::kDgrad, grad_output, filter);
  }
  check_wgrad_near_infinities("pointwise", p, gpu());
}

INSTANTIATE_TEST_SUITE_P(Shapes, PointwiseUnfoldKernels, ::testing::ValuesIn(unfold_shapes()),
                         name_of_unfold);

}  // namespace
}  // namespace haloconv::testing
