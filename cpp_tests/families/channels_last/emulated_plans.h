// The plans of a problem for emulations of their kernels: of both directions, in 16 bits and in
// float32, with small integers and what the definition makes of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "conv2d/families/channels_last/plan.h"
#include "cpp_tests/reference_conv2d.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {

// Calls check(problem, plan, source, filter, expected) for each.
template <class Check>
void for_each_emulated_plan(const std::string& text, const Chip& chip, Check check) {
  using namespace sm90::channels_last;
  Conv2dProblem p = parse_shape("a " + text).problem;
  const Values input = small_integers(input_count(p), 1);
  const Values filter = small_integers(filter_count(p), 2);
  const Values grad_output = small_integers(output_count(p), 4);
  const Values output = reference_fprop(p, input, filter, {});
  const Values grad_input = reference_dgrad(p, grad_output, filter);
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat32}) {
    p.type = type;
    p.set_dense_strides(true);
    for (const Direction direction : {Direction::kFprop, Direction::kDgrad}) {
      const bool fprop = direction == Direction::kFprop;
      ASSERT_EQ(declines(p, direction, true, chip), "");
      for (const Plan& plan : make_plans(p, direction, chip)) {
        check(p, plan, fprop ? input : grad_output, filter, fprop ? output : grad_input);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace haloconv::testing
