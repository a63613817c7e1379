// Shapes of several element types, for tests of the tensor-core kernels.
#pragma once

#include <initializer_list>
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
  bool tf32 = true;  // whether products of float32 may be rounded
};

inline std::ostream& operator<<(std::ostream& os, const TypedShape& shape) {
  return os << shape.problem;
}

inline std::vector<TypedShape> typed_shapes(const std::vector<Shape>& shapes,
                                            std::span<const DataType> types) {
  std::vector<TypedShape> typed;
  for (const Shape& shape : shapes) {
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

// Of a file.
inline std::vector<TypedShape> typed_shapes(const char* file, std::span<const DataType> types) {
  return typed_shapes(load_shapes(file), types);
}

// Of lines.
inline std::vector<TypedShape> typed_shapes(std::initializer_list<const char*> lines,
                                            std::span<const DataType> types) {
  std::vector<Shape> shapes;
  for (const char* line : lines) shapes.push_back(parse_shape(line));
  return typed_shapes(shapes, types);
}

// The problem of a line without its name, with channels innermost.
inline Conv2dProblem channels_last_problem(const std::string& text,
                                           DataType type = DataType::kBFloat16) {
  Conv2dProblem problem = parse_shape("a " + text).problem;
  problem.type = type;
  problem.set_dense_strides(true);
  return problem;
}

// Makes small integers ones of 13 or 14 bits, where TF32 has 11.
inline void lengthen(std::vector<double>& values) {
  for (double& value : values) value *= 4097;
}

// The shapes in float32 that is not rounded.
inline std::vector<TypedShape> precise_shapes(const char* file) {
  std::vector<TypedShape> shapes = typed_shapes(file, std::span(kSm90Types).first(1));
  for (TypedShape& shape : shapes) {
    shape.name += "_precise";
    shape.tf32 = false;
  }
  return shapes;
}

// All of both.
inline std::vector<TypedShape> sm90_shapes(const char* file) {
  std::vector<TypedShape> shapes = typed_shapes(file, kSm90Types);
  for (const TypedShape& shape : precise_shapes(file)) shapes.push_back(shape);
  return shapes;
}

inline std::vector<TypedShape> typed_edges(std::span<const DataType> types) {
  return typed_shapes("edges", types);
}

// For GoogleTest's parameter names.
inline std::string name_of_typed(const ::testing::TestParamInfo<TypedShape>& info) {
  return info.param.name;
}

}  // namespace haloconv::testing
