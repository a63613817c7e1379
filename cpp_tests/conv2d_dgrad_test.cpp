// Gradient of the input: every edge shape and layout, by every implementation of every device.
#include <gtest/gtest.h>

#include "cpp_tests/operator_testing.h"
#include "registration/conv2d.h"

namespace haloconv::testing {
namespace {

class Dgrad : public ::testing::TestWithParam<Shape> {
 protected:
  static void check(const std::vector<Target>& targets) {
    const Conv2dProblem& p = GetParam().problem;
    for (const Layout layout : kAllLayouts) {
      for (const Target& target : targets) {
        const Tensors t(p, layout, target.device);
        const Values expected = reference_dgrad(p, t.grad_values, t.weight_values);
        const std::string what =
            GetParam().name + " layout " + std::to_string(static_cast<int>(layout));
        const ForceImplementation force(target.implementation);
        const at::Tensor grad_input =
            conv2d_dgrad(t.grad_output, t.weight, {p.h, p.w}, stride_of(p), padding_of(p),
                         dilation_of(p), p.groups);
        expect_result(grad_input, expected, target, what);
      }
    }
  }
};

TEST_P(Dgrad, OnCpu) { check(cpu_targets()); }

TEST_P(Dgrad, OnGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  check(gpu_targets());
}

INSTANTIATE_TEST_SUITE_P(Edges, Dgrad, ::testing::ValuesIn(load_shapes("edges")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
