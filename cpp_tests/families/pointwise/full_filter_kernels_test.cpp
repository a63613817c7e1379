// Forward of filters as large as the image as products of vectors: every plan, exact on small
// integers, in both layouts. Needs a Hopper GPU, not torch.
#include <gtest/gtest.h>

#include "cpp_tests/families/pointwise/full_filter_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

void check(const Conv2dProblem& p) {
  const Values input = small_integers(input_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const GatherCheck call(p, Direction::kFprop, input, filter);
  const Values expected = reference_fprop(p, input, filter, {});
  const auto plans = plans_of("pointwise", {.problem = p, .chip = gpu()});
  EXPECT_FALSE(plans.empty()) << p;
  for (const FamilyPlan& of : plans) {
    EXPECT_TRUE(of.says("full filter")) << of;
    call.run(of, expected);
  }
}

class Sm90PointwiseFullFilterKernels : public ::testing::TestWithParam<const char*> {};

// Of dense tensors, and of those with images, filters and results apart.
TEST_P(Sm90PointwiseFullFilterKernels, AreExactOnSmallIntegers) {
  if (!has_gpu() || gpu().compute_capability != 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16, DataType::kFloat32}) {
    for (const bool channels_last : {false, true}) {
      Conv2dProblem p = parse_shape("a " + std::string(GetParam())).problem;
      p.type = type;
      p.set_dense_strides(channels_last);
      check(p);
      p.input.n += 12;
      p.filter.n += 8;
      p.output.n = 2 * p.k + 3;
      p.output.c = 2;
      if (!HasFailure()) check(p);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Sm90PointwiseFullFilterKernels,
                         ::testing::ValuesIn(kFullFilterShapes));

}  // namespace
}  // namespace haloconv::testing
