// All plans of wgrad for the problems of the shape files.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "chip/known_chips.h"
#include "conv2d/families/wgrad/arguments.h"
#include "conv2d/geometry/hopper_rows.h"
#include "cpp_tests/shapes.h"

namespace haloconv::testing {

// Why wgrad, on Hopper, declines the problem's weight gradient; empty if it does not.
inline std::string wgrad_declines(const Conv2dProblem& p, const Chip& chip = h200()) {
  return hopper_rows_decline(p, Direction::kWgrad, chip);
}

// Calls check(shape, problem, plan, arguments) for each plan of each shape of some files, of
// float32, rounded to TF32 and not, and of 16-bit elements, that the kernels of wgrad/ have; the
// problem is the shape's, flattened.
template <class Check>
void for_each_plan(std::initializer_list<const char*> files, Check check) {
  for (const char* file : files) {
    for (Shape shape : load_shapes(file)) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        shape.problem.type = type;
        if (!wgrad_declines(shape.problem).empty()) continue;
        const Conv2dProblem p = flattened(shape.problem);
        for (const bool tf32 : {true, false}) {
          if (!tf32 && type != DataType::kFloat32) continue;
          const auto plans = wgrad::make_plans(shape.problem, h200(), true, tf32);
          EXPECT_FALSE(plans.empty()) << shape;
          for (const wgrad::Plan& plan : plans) {
            EXPECT_EQ(plan.precise, !tf32) << shape << plan;
            check(shape, p, plan, wgrad::make_arguments(p, plan).value());
          }
        }
      }
    }
  }
}

}  // namespace haloconv::testing
