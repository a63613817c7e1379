// Problems as lines of text: see shapes/reference.txt for the format.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "conv2d/problem.h"

namespace haloconv::testing {

struct Shape {
  std::string name;
  Conv2dProblem problem;  // float32, dense, rows innermost
  std::string reason;
};

// Throws std::runtime_error with the line where the text is not of the format.
Shape parse_shape(const std::string& line);

// All problems of shapes/NAME.txt.
std::vector<Shape> load_shapes(const std::string& name);

// For GoogleTest's parameter names.
inline std::string name_of_shape(const ::testing::TestParamInfo<Shape>& info) {
  return info.param.name;
}

std::ostream& operator<<(std::ostream& os, const Shape& shape);

}  // namespace haloconv::testing
