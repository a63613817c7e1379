// Forward: every edge shape and layout, by every implementation of every device.
#include "cpp_tests/operator_testing.h"

namespace haloconv::testing {
namespace {

void check_fprop(const Shape& shape, const std::vector<Target>& targets) {
  const Conv2dProblem& p = shape.problem;
  for_each_case(
      shape, targets, [&](const Tensors& t, const Target& target, const std::string& what) {
        const at::Tensor output = haloconv::conv2d(t.input, t.weight, t.bias, stride_of(p),
                                                   padding_of(p), dilation_of(p), p.groups);
        expect_result(output, reference_fprop(p, t.input_values, t.weight_values, t.bias_values),
                      target, what);
      });
}

HALOCONV_TEST_EDGES(Fprop, check_fprop);

}  // namespace
}  // namespace haloconv::testing
