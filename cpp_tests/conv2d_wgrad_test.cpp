// Gradients of weight and bias: every edge shape and layout, by every implementation of every
// device.
#include "cpp_tests/operator_testing.h"

namespace haloconv::testing {
namespace {

void check_wgrad(const Shape& shape, const std::vector<Target>& targets) {
  const Conv2dProblem& p = shape.problem;
  for_each_case(
      shape, targets, [&](const Tensors& t, const Target& target, const std::string& what) {
        const auto [grad_weight, grad_bias] =
            conv2d_wgrad_bias(t.grad_output, t.input, {p.r, p.s}, stride_of(p), padding_of(p),
                              dilation_of(p), p.groups);
        const Values expected = reference_wgrad(p, t.grad_values, t.input_values);
        expect_result(grad_weight, expected, target, what);
        expect_result(grad_bias, reference_bias_grad(p, t.grad_values), target, what + " bias");
        const at::Tensor alone = conv2d_wgrad(t.grad_output, t.input, {p.r, p.s}, stride_of(p),
                                              padding_of(p), dilation_of(p), p.groups);
        expect_result(alone, expected, target, what + " without bias");
      });
}

HALOCONV_TEST_EDGES(Wgrad, check_wgrad);

}  // namespace
}  // namespace haloconv::testing
