// Gradient of the input: every edge shape and layout, by every implementation of every device.
#include "cpp_tests/operator_testing.h"

namespace haloconv::testing {
namespace {

void check_dgrad(const Shape& shape, const std::vector<Target>& targets) {
  const Conv2dProblem& p = shape.problem;
  for_each_case(
      shape, targets, [&](const Tensors& t, const Target& target, const std::string& what) {
        const at::Tensor grad_input =
            conv2d_dgrad(t.grad_output, t.weight, {p.h, p.w}, stride_of(p), padding_of(p),
                         dilation_of(p), p.groups);
        expect_result(grad_input, reference_dgrad(p, t.grad_values, t.weight_values), target, what);
      });
}

HALOCONV_TEST_EDGES(Dgrad, check_dgrad);

}  // namespace
}  // namespace haloconv::testing
