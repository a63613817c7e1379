#include "cpp_tests/fused_operands.h"

namespace haloconv::testing {

namespace {

std::vector<int64_t> channel_positions(const Conv2dProblem& problem, Direction direction) {
  return positions({1, 1, 1, 1}, result_channels(problem, direction), 1, 1, 1);
}

const void* given(DeviceTensor& tensor, const Values& values) {
  return values.empty() ? nullptr : tensor.set(values).data();
}

}  // namespace

int64_t result_channels(const Conv2dProblem& problem, Direction direction) {
  return direction == Direction::kFprop ? problem.k : problem.c;
}

std::vector<int64_t> result_positions(const Conv2dProblem& problem, Direction direction) {
  const Conv2dProblem& p = problem;
  return direction == Direction::kFprop ? positions(p.output, p.n, p.k, p.p(), p.q())
                                        : positions(p.input, p.n, p.c, p.h, p.w);
}

FusedOperands::FusedOperands(const Conv2dProblem& problem, Direction direction, const Values& scale,
                             const Values& shift, const Values& residual,
                             const Activation& activation)
    : residual_values_(residual),
      scale_(channel_positions(problem, direction), problem.type),
      shift_(channel_positions(problem, direction), problem.type),
      residual_(result_positions(problem, direction), problem.type),
      fusion_{.scale = given(scale_, scale),
              .shift = given(shift_, shift),
              .residual = given(residual_, residual),
              .activation = activation} {}

void FusedOperands::expect_residual(const std::string& what) const {
  if (!residual_values_.empty()) residual_.expect(residual_values_, what + ": the residual");
}

}  // namespace haloconv::testing
