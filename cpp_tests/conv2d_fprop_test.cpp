// Forward: every edge shape and layout, by every implementation of every device.
#include <gtest/gtest.h>

#include "cpp_tests/operator_testing.h"
#include "registration/conv2d.h"

namespace haloconv::testing {
namespace {

class Fprop : public ::testing::TestWithParam<Shape> {
 protected:
  static void check(const std::vector<Target>& targets) {
    const Conv2dProblem& p = GetParam().problem;
    for (const Layout layout : kAllLayouts) {
      for (const Target& target : targets) {
        const Tensors t(p, layout, target.device);
        const Values expected = reference_fprop(p, t.input_values, t.weight_values, t.bias_values);
        const std::string what =
            GetParam().name + " layout " + std::to_string(static_cast<int>(layout));
        const ForceImplementation force(target.implementation);
        const at::Tensor output = haloconv::conv2d(t.input, t.weight, t.bias, stride_of(p),
                                                   padding_of(p), dilation_of(p), p.groups);
        expect_result(output, expected, target, what);
      }
    }
  }
};

TEST_P(Fprop, OnCpu) { check(cpu_targets()); }

TEST_P(Fprop, OnGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  check(gpu_targets());
}

INSTANTIATE_TEST_SUITE_P(Edges, Fprop, ::testing::ValuesIn(load_shapes("edges")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
