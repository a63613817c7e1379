#include "conv2d/problem.h"

#include <ostream>
#include <stdexcept>
#include <string>

namespace haloconv {

int64_t size_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
    case DataType::kOther:
      return 8;
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
  }
  return 0;
}

Strides nchw_strides(int64_t c, int64_t h, int64_t w) { return {c * h * w, h * w, w, 1}; }

Strides nhwc_strides(int64_t c, int64_t h, int64_t w) { return {h * w * c, 1, w * c, c}; }

double Conv2dProblem::flop() const {
  return 2.0 * static_cast<double>(n * k) * static_cast<double>(p() * q()) *
         static_cast<double>(group_c() * r * s);
}

double Conv2dProblem::bytes() const {
  const double elements = static_cast<double>(n * c) * static_cast<double>(h * w) +
                          static_cast<double>(k * group_c() * r * s) +
                          static_cast<double>(n * k) * static_cast<double>(p() * q());
  return elements * static_cast<double>(size_of(type));
}

void Conv2dProblem::set_dense_strides(bool channels_last) {
  const auto dense = channels_last ? nhwc_strides : nchw_strides;
  input = dense(c, h, w);
  filter = dense(group_c(), r, s);
  output = dense(k, p(), q());
}

void check_sizes(const Conv2dProblem& p) {
  struct Size {
    const char* name;
    int64_t value, least;
  };
  const auto check = [](const Size& size) {
    if (size.value >= size.least) return;
    throw std::logic_error("haloconv: " + std::string(size.name) + " is " +
                           std::to_string(size.value) + ", expected " + std::to_string(size.least) +
                           " or more");
  };
  const Size sizes[] = {
      {"batch size", p.n, 0},
      {"number of input channels", p.c, 0},
      {"number of output channels", p.k, 0},
      {"input height", p.h, 1},
      {"input width", p.w, 1},
      {"filter height", p.r, 1},
      {"filter width", p.s, 1},
      {"padding at the top", p.pad_top, 0},
      {"padding at the bottom", p.pad_bottom, 0},
      {"padding at the left", p.pad_left, 0},
      {"padding at the right", p.pad_right, 0},
      {"stride along the height", p.stride_h, 1},
      {"stride along the width", p.stride_w, 1},
      {"dilation along the height", p.dilation_h, 1},
      {"dilation along the width", p.dilation_w, 1},
      {"number of groups", p.groups, 1},
  };
  for (const Size& size : sizes) check(size);
  // Only now can the output's be counted.
  check({"output height", p.p(), 1});
  check({"output width", p.q(), 1});
}

void check_not_empty(const Conv2dProblem& problem) {
  check_sizes(problem);
  if (!problem.is_empty()) return;
  throw std::logic_error(
      "haloconv: a tensor has no element, expected a problem that kernels compute");
}

std::string_view name_of(Direction direction) {
  switch (direction) {
    case Direction::kFprop:
      return "fprop";
    case Direction::kDgrad:
      return "dgrad";
    case Direction::kWgrad:
      return "wgrad";
  }
  return "";
}

std::ostream& operator<<(std::ostream& os, Direction direction) { return os << name_of(direction); }

std::ostream& operator<<(std::ostream& os, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return os << "float32";
    case DataType::kFloat64:
      return os << "float64";
    case DataType::kFloat16:
      return os << "float16";
    case DataType::kBFloat16:
      return os << "bfloat16";
    case DataType::kOther:
      return os << "other";
  }
  return os;
}

std::ostream& operator<<(std::ostream& os, const Strides& strides) {
  return os << strides.n << ',' << strides.c << ',' << strides.h << ',' << strides.w;
}

std::ostream& operator<<(std::ostream& os, const Conv2dProblem& p) {
  os << 'n' << p.n << 'c' << p.c << 'h' << p.h << 'w' << p.w << " k" << p.k << 'r' << p.r << 's'
     << p.s;
  if (p.stride_h != 1 || p.stride_w != 1) os << " stride=" << p.stride_h << ',' << p.stride_w;
  if (p.pad_top || p.pad_bottom || p.pad_left || p.pad_right) {
    os << " pad=" << p.pad_top << ',' << p.pad_bottom << ',' << p.pad_left << ',' << p.pad_right;
  }
  if (p.dilation_h != 1 || p.dilation_w != 1) {
    os << " dil=" << p.dilation_h << ',' << p.dilation_w;
  }
  if (p.groups != 1) os << " groups=" << p.groups;
  return os << ' ' << p.type << " strides " << p.input << " * " << p.filter << " -> " << p.output;
}

}  // namespace haloconv
