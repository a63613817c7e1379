// A fixture for kernels of the input's gradient alone: every plan of their family, of tensors in
// each of the ways that they may lie, writes the definition's results and nothing else but its
// workspace. Needs a Hopper GPU.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "conv2d/epilogue/fusion.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/typed_shapes.h"

namespace haloconv::testing {

class HopperDgrad : public ::testing::TestWithParam<TypedShape> {
 protected:
  void SetUp() override;

  virtual const char* family() const = 0;
  // The problem by the strides of its tensors.
  virtual std::vector<Conv2dProblem> layouts() const = 0;

  // Without an epilogue.
  void check_sums();
  // With a bias, and with all that may follow it.
  void check_epilogue();

  Conv2dProblem problem_ = GetParam().problem;
  Values source_, filter_, bias_;  // small integers until a test changes them

 private:
  void check(const Conv2dProblem& problem, const Values& expected, bool has_bias,
             const Fusion& fusion) const;
};

}  // namespace haloconv::testing
