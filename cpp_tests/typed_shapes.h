// Shapes of several element types, for tests of the Hopper kernels.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "cpp_tests/shapes.h"

namespace haloconv::testing {

// Those that the Hopper kernels take.
inline constexpr DataType kSm90Types[] = {DataType::kFloat32, DataType::kFloat16,
                                          DataType::kBFloat16};

struct TypedShape {
  std::string name;  // the shape's, and the type's unless that is float32
  Conv2dProblem problem;
};

inline std::ostream& operator<<(std::ostream& os, const TypedShape& shape) {
  return os << shape.problem;
}

inline std::vector<TypedShape> typed_shapes(const char* file, std::span<const DataType> types) {
  std::vector<TypedShape> typed;
  for (const Shape& shape : load_shapes(file)) {
    for (const DataType type : types) {
      std::ostringstream name;
      name << shape.name;
      if (type != DataType::kFloat32) name << '_' << type;
      typed.push_back({name.str(), shape.problem});
      typed.back().problem.type = type;
    }
  }
  return typed;
}

inline std::vector<TypedShape> typed_edges(std::span<const DataType> types) {
  return typed_shapes("edges", types);
}

// For GoogleTest's parameter names.
inline std::string name_of_typed(const ::testing::TestParamInfo<TypedShape>& info) {
  return info.param.name;
}

}  // namespace haloconv::testing
