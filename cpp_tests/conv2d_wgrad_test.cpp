// Gradients of weight and bias: every edge shape and layout, by every implementation of every
// device.
#include <gtest/gtest.h>

#include "cpp_tests/operator_testing.h"
#include "registration/conv2d.h"

namespace haloconv::testing {
namespace {

class Wgrad : public ::testing::TestWithParam<Shape> {
 protected:
  static void check(const std::vector<Target>& targets) {
    const Conv2dProblem& p = GetParam().problem;
    for (const Layout layout : kAllLayouts) {
      for (const Target& target : targets) {
        const Tensors t(p, layout, target.device);
        const Values expected = reference_wgrad(p, t.grad_values, t.input_values);
        const std::string what =
            GetParam().name + " layout " + std::to_string(static_cast<int>(layout));
        const ForceImplementation force(target.implementation);
        const auto [grad_weight, grad_bias] =
            conv2d_wgrad_bias(t.grad_output, t.input, {p.r, p.s}, stride_of(p), padding_of(p),
                              dilation_of(p), p.groups);
        expect_result(grad_weight, expected, target, what);
        expect_result(grad_bias, reference_bias_grad(p, t.grad_values), target, what + " bias");
        const at::Tensor alone = conv2d_wgrad(t.grad_output, t.input, {p.r, p.s}, stride_of(p),
                                              padding_of(p), dilation_of(p), p.groups);
        expect_result(alone, expected, target, what + " without bias");
      }
    }
  }
};

TEST_P(Wgrad, OnCpu) { check(cpu_targets()); }

TEST_P(Wgrad, OnGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a GPU";
  check(gpu_targets());
}

INSTANTIATE_TEST_SUITE_P(Edges, Wgrad, ::testing::ValuesIn(load_shapes("edges")), name_of_shape);

}  // namespace
}  // namespace haloconv::testing
