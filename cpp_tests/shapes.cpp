#include "cpp_tests/shapes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace haloconv::testing {

namespace {

[[noreturn]] void fail(const std::string& line, const std::string& what) {
  throw std::runtime_error("shape \"" + line + "\": " + what);
}

// Numbers between letters or commas: "n2c3" with keys "nc", "1,2" with no key.
std::vector<int64_t> numbers(const std::string& word, const std::string& keys,
                             const std::string& line) {
  std::vector<int64_t> values;
  const char* at = word.data();
  const char* end = at + word.size();
  while (at != end) {
    if (!keys.empty() && (values.size() == keys.size() || *at++ != keys[values.size()])) {
      fail(line, "expected " + keys + " in " + word);
    }
    if (keys.empty() && !values.empty() && *at++ != ',') fail(line, "expected a comma in " + word);
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) fail(line, "expected a number in " + word);
    values.push_back(value);
    at = next;
  }
  if (!keys.empty() && values.size() != keys.size()) fail(line, "expected " + keys);
  return values;
}

}  // namespace

Shape parse_shape(const std::string& line) {
  const size_t hash = line.find('#');
  Shape shape;
  if (hash != std::string::npos) shape.reason = line.substr(hash + 1);
  shape.reason.erase(0, shape.reason.find_first_not_of(' '));
  std::istringstream words(line.substr(0, hash));
  std::string input, filter, option;
  if (!(words >> shape.name >> input >> filter)) fail(line, "expected a name, input and filter");
  Conv2dProblem& p = shape.problem;
  const auto x = numbers(input, "nchw", line);
  const auto f = numbers(filter, "krs", line);
  std::tie(p.n, p.c, p.h, p.w) = std::tie(x[0], x[1], x[2], x[3]);
  std::tie(p.k, p.r, p.s) = std::tie(f[0], f[1], f[2]);
  while (words >> option) {
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const auto v = equals == std::string::npos ? std::vector<int64_t>()
                                               : numbers(option.substr(equals + 1), "", line);
    if (key == "stride" && v.size() == 2) {
      std::tie(p.stride_h, p.stride_w) = std::tie(v[0], v[1]);
    } else if (key == "pad" && v.size() == 4) {
      std::tie(p.pad_top, p.pad_bottom, p.pad_left, p.pad_right) = std::tie(v[0], v[1], v[2], v[3]);
    } else if (key == "dil" && v.size() == 2) {
      std::tie(p.dilation_h, p.dilation_w) = std::tie(v[0], v[1]);
    } else if (key == "groups" && v.size() == 1) {
      p.groups = v[0];
    } else {
      fail(line, "unknown option " + option);
    }
  }
  p.set_dense_strides(false);
  return shape;
}

std::vector<Shape> load_shapes(const std::string& name) {
  const std::string path = std::string(HALOCONV_SHAPES) + "/" + name + ".txt";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    shapes.push_back(parse_shape(line));
  }
  if (shapes.empty()) throw std::runtime_error("no shapes in " + path);
  return shapes;
}

std::ostream& operator<<(std::ostream& os, const Shape& shape) {
  return os << shape.name << ": " << shape.problem;
}

}  // namespace haloconv::testing
