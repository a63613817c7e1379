// pointwise's kernels of a problem with a spread: every plan, exact on small integers. Needs a
// Hopper GPU, not torch.
#include <gtest/gtest.h>

#include "cpp_tests/families/pointwise/spread_shapes.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/gather_check.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {
namespace {

void check(const Conv2dProblem& p, bool has_bias) {
  const Values source = small_integers(output_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values bias = has_bias ? small_integers(p.c, 3) : Values();
  const Values expected = has_bias ? reference_dgrad_with_bias(p, source, filter, bias)
                                   : reference_dgrad(p, source, filter);
  const GatherCheck call(p, Direction::kDgrad, source, filter, bias);
  const auto plans =
      plans_of("pointwise", {.problem = p, .direction = Direction::kDgrad, .chip = gpu()});
  EXPECT_GE(plans.size(), 3u) << p;
  for (const FamilyPlan& of : plans) {
    EXPECT_TRUE(of.says("spread")) << of;
    call.run(of, expected);
  }
}

class Sm90PointwiseSpreadKernels : public ::testing::TestWithParam<const char*> {};

// Of dense tensors, and of those with images, channels and rows of the result apart.
TEST_P(Sm90PointwiseSpreadKernels, AreExactOnSmallIntegers) {
  if (!has_gpu() || gpu().compute_capability != 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0";
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    Conv2dProblem p = parse_shape("a " + std::string(GetParam())).problem;
    p.type = type;
    Conv2dProblem apart = p;
    const int64_t pitch = p.w + 2, plane = p.h * pitch + 2;
    apart.input = {p.c * plane + 6, plane, pitch, 1};
    const int64_t source_plane = p.p() * p.q() + 1;
    apart.output = {p.k * source_plane + 1, source_plane, p.q(), 1};
    for (const Conv2dProblem& of : {p, apart}) {
      for (const bool has_bias : {false, true}) {
        check(of, has_bias);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Sm90PointwiseSpreadKernels, ::testing::ValuesIn(kSpreadShapes));

}  // namespace
}  // namespace haloconv::testing
