// Scale, shift and residual of a call on the GPU.
#pragma once

#include <string>
#include <vector>

#include "conv2d/epilogue/fusion.h"
#include "cpp_tests/device_tensor.h"

namespace haloconv::testing {

// What a direction computes: fprop the output, dgrad the input's gradient.
int64_t result_channels(const Conv2dProblem& problem, Direction direction);
std::vector<int64_t> result_positions(const Conv2dProblem& problem, Direction direction);

class FusedOperands {
 public:
  // What has no values is left out.
  FusedOperands(const Conv2dProblem& problem, Direction direction, const Values& scale,
                const Values& shift, const Values& residual, const Activation& activation);

  const Fusion& fusion() const { return fusion_; }
  // Nobody writes where the residual is.
  void expect_residual(const std::string& what) const;

 private:
  Values residual_values_;
  DeviceTensor scale_, shift_, residual_;
  Fusion fusion_;
};

}  // namespace haloconv::testing
