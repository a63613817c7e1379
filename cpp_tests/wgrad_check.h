// A weight gradient on the GPU, with its bias gradient: what a plan of whatever family writes,
// against the definition.
#pragma once

#include <string_view>

#include "cpp_tests/device_tensor.h"
#include "cpp_tests/family_plans.h"
#include "cpp_tests/reference_conv2d.h"

namespace haloconv::testing {

// One problem's tensors on the device, and what its plans have to make of them.
class WgradCheck {
 public:
  // grad_output begins so many elements after whole 256 bytes.
  WgradCheck(const Conv2dProblem& problem, const Values& grad_output, const Values& input,
             int64_t offset = 0);

  // Launches a plan, which writes the definition's gradients and nothing else but its workspace.
  void run(const FamilyPlan& of, bool with_bias) const;

 private:
  Conv2dProblem problem_;
  Values expected_, expected_bias_;
  DeviceTensor input_, grad_output_;
  int64_t offset_bytes_;
};

// Every plan that a family has for the chip, with and without a bias gradient: there is one.
void check_wgrad(std::string_view family, const Conv2dProblem& problem, const Chip& chip,
                 const Values& grad_output, const Values& input);
// Of small integers.
void check_wgrad(std::string_view family, const Conv2dProblem& problem, const Chip& chip);
// With infinities and NaN among them, in several of the input's channels.
void check_wgrad_near_infinities(std::string_view family, const Conv2dProblem& problem,
                                 const Chip& chip);

// With infinities of both signs and NaN scattered over the input, everywhere in it, and in
// grad_output alone.
void check_wgrad_of_many_infinities(std::string_view family, const Conv2dProblem& problem,
                                    const Chip& chip);

// With the input's last column infinite, which is where rows end that are no whole eights.
void check_wgrad_of_infinite_ends(std::string_view family, const Conv2dProblem& problem,
                                  const Chip& chip);

}  // namespace haloconv::testing
