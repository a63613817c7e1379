#include "registration/conv2d/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/elu_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardsigmoid_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardswish_backward.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/hardtanh_backward.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mish_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

namespace haloconv {
namespace {

using Kind = ActivationKind;

struct Entry {
  std::string_view name;
  Activation standard;         // with the default arguments
  std::string_view arguments;  // what a call may give: "" for none
  size_t count = 0;
  bool required = false;
};

constexpr Entry kEntries[] = {
    {"none", {Kind::kNone}, ""},
    {"relu", {Kind::kRelu}, ""},
    {"leaky_relu", {Kind::kLeakyRelu, 0.01}, "slope", 1},
    {"clamp", {Kind::kClamp}, "min, max", 2, true},
    {"hardtanh", {Kind::kHardtanh, -1, 1}, "min, max", 2},
    {"relu6", {Kind::kHardtanh, 0, 6}, ""},
    {"sigmoid", {Kind::kSigmoid}, ""},
    {"tanh", {Kind::kTanh}, ""},
    {"silu", {Kind::kSilu}, ""},
    {"gelu", {Kind::kGelu}, ""},
    {"gelu_tanh", {Kind::kGeluTanh}, ""},
    {"hardswish", {Kind::kHardswish}, ""},
    {"hardsigmoid", {Kind::kHardsigmoid}, ""},
    {"mish", {Kind::kMish}, ""},
    {"elu", {Kind::kElu, 1}, "alpha", 1},
};

const Entry& entry_of(std::string_view name, const char* op) {
  std::ostringstream names;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry;
    names << (&entry == kEntries ? "" : ", ") << entry.name;
  }
  TORCH_CHECK(false, op, ": expected activation to be one of ", names.str(), ", but got \"", name,
              "\"");
}

// ATen's backward operators of these have no derivatives of their own.
at::Tensor differentiable_silu_backward(const at::Tensor& grad, const at::Tensor& x) {
  const at::Tensor sigmoid = at::sigmoid(x);
  return grad * (sigmoid * (x * (1 - sigmoid) + 1));
}

at::Tensor differentiable_mish_backward(const at::Tensor& grad, const at::Tensor& x) {
  const at::Tensor tanh = at::tanh(at::softplus(x));
  return grad * (tanh + x * at::sigmoid(x) * (1 - tanh * tanh));
}

// Integers stay what they are between bounds that are whole, as torch's clamp keeps them between
// integers. `none` is what a bound is that bounds nothing.
std::optional<at::Scalar> clamp_bound(const at::Tensor& x, double bound, double none) {
  if (!at::isIntegralType(x.scalar_type(), /*includeBool=*/false)) return bound;
  if (bound == none) return std::nullopt;
  const bool whole = std::trunc(bound) == bound && std::abs(bound) < 0x1p63;
  return whole ? at::Scalar(static_cast<int64_t>(bound)) : at::Scalar(bound);
}

at::Tensor clamp(const at::Tensor& x, double least, double most) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto min = clamp_bound(x, least, -kInfinity), max = clamp_bound(x, most, kInfinity);
  return min || max ? at::clamp(x, min, max) : x;
}

at::Tensor differentiable_hardsigmoid_backward(const at::Tensor& grad, const at::Tensor& x) {
  return at::hardtanh_backward(grad, x, -3, 3) / 6;
}

}  // namespace

Activation check_activation(std::string_view name, at::ArrayRef<double> arguments, const char* op) {
  const Entry& entry = entry_of(name, op);
  Activation activation = entry.standard;
  if (arguments.empty() && !entry.required) return activation;
  TORCH_CHECK(arguments.size() == entry.count, op, ": expected activation_arguments to hold ",
              entry.count == 0 ? "nothing" : "(", entry.arguments, entry.count == 0 ? "" : ")",
              " for activation=\"", name, "\", but got ", arguments);
  if (entry.count > 0) activation.a = arguments[0];
  if (entry.count > 1) {
    activation.b = arguments[1];
    TORCH_CHECK(activation.a <= activation.b, op, ": expected activation_arguments to hold (",
                entry.arguments, ") with min <= max for activation=\"", name, "\", but got ",
                arguments);
  }
  return activation;
}

at::Tensor activate(const Activation& activation, const at::Tensor& x) {
  const auto& [kind, a, b] = activation;
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kRelu:
      return at::relu(x);
    case Kind::kLeakyRelu:
      return at::leaky_relu(x, a);
    case Kind::kClamp:
      return clamp(x, a, b);
    case Kind::kHardtanh:
      return at::hardtanh(x, a, b);
    case Kind::kSigmoid:
      return at::sigmoid(x);
    case Kind::kTanh:
      return at::tanh(x);
    case Kind::kSilu:
      return at::silu(x);
    case Kind::kGelu:
      return at::gelu(x, "none");
    case Kind::kGeluTanh:
      return at::gelu(x, "tanh");
    case Kind::kHardswish:
      return at::hardswish(x);
    case Kind::kHardsigmoid:
      return at::hardtanh(x + 3, 0, 6) / 6;  // at::hardsigmoid can be derived but once
    case Kind::kMish:
      return at::mish(x);
    case Kind::kElu:
      return at::elu(x, a);
  }
  return x;
}

void activate_in_place(const Activation& activation, const at::Tensor& x) {
  const auto& [kind, a, b] = activation;
  at::Tensor result = x;
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kRelu:
      at::relu_(result);
      break;
    case Kind::kLeakyRelu:
      at::leaky_relu_(result, a);
      break;
    case Kind::kClamp:
      at::clamp_(result, a, b);
      break;
    case Kind::kHardtanh:
      at::hardtanh_(result, a, b);
      break;
    case Kind::kSigmoid:
      at::sigmoid_(result);
      break;
    case Kind::kTanh:
      at::tanh_(result);
      break;
    case Kind::kSilu:
      at::silu_(result);
      break;
    case Kind::kGelu:
      at::gelu_(result, "none");
      break;
    case Kind::kGeluTanh:
      at::gelu_(result, "tanh");
      break;
    case Kind::kHardswish:
      at::hardswish_(result);
      break;
    case Kind::kHardsigmoid:
      at::hardsigmoid_(result);
      break;
    case Kind::kMish:
      at::mish_(result);
      break;
    case Kind::kElu:
      at::elu_(result, a);
      break;
  }
}

bool derives_from_result(const Activation& activation) {
  switch (activation.kind) {
    case Kind::kNone:
    case Kind::kRelu:
    case Kind::kHardtanh:
    case Kind::kSigmoid:
    case Kind::kTanh:
      return true;
    case Kind::kLeakyRelu:
    case Kind::kElu:
      return activation.a >= 0;  // then the result has the sign of what it was made from
    default:
      return false;
  }
}

at::Tensor activate_backward(const Activation& activation, const at::Tensor& grad,
                             const at::Tensor& known) {
  const auto& [kind, a, b] = activation;
  const bool is_result = derives_from_result(activation);
  const bool again = at::GradMode::is_enabled();  // the result may be differentiated
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kRelu:
      return at::threshold_backward(grad, known, 0);
    case Kind::kLeakyRelu:
      return at::leaky_relu_backward(grad, known, a, is_result);
    case Kind::kClamp:
      return at::where(known.ge(a).logical_and(known.le(b)), grad, 0);  // 0 of infinity too
    case Kind::kHardtanh:
      return at::hardtanh_backward(grad, known, a, b);
    case Kind::kSigmoid:
      return at::sigmoid_backward(grad, known);
    case Kind::kTanh:
      return at::tanh_backward(grad, known);
    case Kind::kSilu:
      return (again ? differentiable_silu_backward : at::silu_backward)(grad, known);
    case Kind::kGelu:
      return at::gelu_backward(grad, known, "none");
    case Kind::kGeluTanh:
      return at::gelu_backward(grad, known, "tanh");
    case Kind::kHardswish:
      return at::hardswish_backward(grad, known);
    case Kind::kHardsigmoid:
      return (again ? differentiable_hardsigmoid_backward : at::hardsigmoid_backward)(grad, known);
    case Kind::kMish:
      return (again ? differentiable_mish_backward : at::mish_backward)(grad, known);
    case Kind::kElu:
      return at::elu_backward(grad, a, 1, 1, is_result, known);
  }
  return grad;
}

}  // namespace haloconv
