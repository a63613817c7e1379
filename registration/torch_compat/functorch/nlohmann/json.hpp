// Stands in for nlohmann/json.hpp, which torch's ATen/functorch headers include and its packages
// leave out. They use it to print and parse the state of a transform; conv2d/vmap.cpp does neither,
// so that declarations are enough.
#pragma once

#include <string>

namespace nlohmann {

struct json {
  json();
  template <class T>
  explicit json(const T& value);
  template <class T>
  T get() const;
  std::string dump() const;
  static json parse(const std::string& text);
};

}  // namespace nlohmann
