// A forward pass or an input gradient on the GPU: what a plan of whatever family writes, against
// the definition. Both gather their results from the source's pixels.
#pragma once

#include <string_view>

#include "conv2d/epilogue/fusion.h"
#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {

// What one call reads, on the device.
class GatherCheck {
 public:
  // The source is the input or, for dgrad, grad_output. An empty bias is none.
  GatherCheck(const Conv2dProblem& problem, Direction direction, const Values& source,
              const Values& filter, const Values& bias = {});

  // Launches a plan, which writes `expected` and nothing else but its workspace.
  void run(const FamilyPlan& of, const Values& expected, const Fusion& fusion = {}) const;
  // Every plan that a family has for the chip: there is one.
  void run_plans(std::string_view family, const Chip& chip, const Values& expected,
                 const Fusion& fusion = {}) const;

 private:
  Conv2dProblem problem_;
  Direction direction_;
  DeviceTensor source_, filter_, bias_;
  bool has_bias_;
};

}  // namespace haloconv::testing
