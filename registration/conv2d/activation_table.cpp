#include "registration/conv2d/activation_table.h"

#include <ATen/TensorOperators.h>
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

#include "registration/torch_compat/clamp.h"

namespace haloconv {
namespace {

using at::Tensor;
using Kind = ActivationKind;
using From = DerivesFrom;
using Gradient = ActivationGradient;

// ATen's backward operators of these have no derivatives of their own.
Tensor differentiable_silu_backward(const Tensor& grad, const Tensor& x) {
  const Tensor sigmoid = at::sigmoid(x);
  return grad * (sigmoid * (x * (1 - sigmoid) + 1));
}

Tensor differentiable_mish_backward(const Tensor& grad, const Tensor& x) {
  const Tensor tanh = at::tanh(at::softplus(x));
  return grad * (tanh + x * at::sigmoid(x) * (1 - tanh * tanh));
}

Tensor differentiable_hardsigmoid_backward(const Tensor& grad, const Tensor& x) {
  return at::hardtanh_backward(grad, x, -3, 3) / 6;
}

// Integers stay integers between whole bounds, as torch's clamp keeps them between integers. `none`
// is the value of a bound that bounds nothing.
std::optional<at::Scalar> clamp_bound(const Tensor& x, double bound, double none) {
  if (!at::isIntegralType(x.scalar_type(), /*includeBool=*/false)) return bound;
  if (bound == none) return std::nullopt;
  const bool whole = std::trunc(bound) == bound && std::abs(bound) < 0x1p63;
  return whole ? at::Scalar(static_cast<int64_t>(bound)) : at::Scalar(bound);
}

Tensor clamp(const Tensor& x, double least, double most) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto min = clamp_bound(x, least, -kInfinity), max = clamp_bound(x, most, kInfinity);
  return min || max ? at::clamp(x, min, max) : x;
}

// Two names of one kind.
constexpr ActivationEntry hardtanh(std::string_view name, double low, double high,
                                   ActivationEntry::ArgumentNames arguments = {}) {
  return {
      .name = name,
      .standard = {Kind::kHardtanh, low, high},
      .arguments = arguments,
      .aten = name,
      .derives_from = From::kResult,
      .forward = [](const Tensor& x, double a, double b) { return at::hardtanh(x, a, b); },
      .in_place = [](Tensor& x, double a, double b) { at::hardtanh_(x, a, b); },
      .backward =
          [](const Gradient& g) { return at::hardtanh_backward(g.grad, g.known, g.a, g.b); },
  };
}

constexpr ActivationEntry kTable[] = {
    {
        .name = "none",
        .standard = {Kind::kNone},
        .derives_from = From::kResult,
        .forward = [](const Tensor& x, double, double) { return x; },
        .in_place = [](Tensor&, double, double) {},
        .backward = [](const Gradient& g) { return g.grad; },
    },
    {
        .name = "relu",
        .standard = {Kind::kRelu},
        .aten = "relu",
        .derives_from = From::kResult,
        .forward = [](const Tensor& x, double, double) { return at::relu(x); },
        .in_place = [](Tensor& x, double, double) { at::relu_(x); },
        .backward = [](const Gradient& g) { return at::threshold_backward(g.grad, g.known, 0); },
    },
    {
        .name = "leaky_relu",
        .standard = {Kind::kLeakyRelu, 0.01},
        .arguments = {"negative_slope"},
        .aten = "leaky_relu",
        .derives_from = From::kEither,
        .forward = [](const Tensor& x, double a, double) { return at::leaky_relu(x, a); },
        .in_place = [](Tensor& x, double a, double) { at::leaky_relu_(x, a); },
        .backward =
            [](const Gradient& g) {
              return at::leaky_relu_backward(g.grad, g.known, g.a, g.is_result);
            },
    },
    {
        .name = "clamp",
        .standard = {Kind::kClamp},
        .arguments = {"min", "max"},
        .required = true,
        .aten = "clamp",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double a, double b) { return clamp(x, a, b); },
        .in_place = [](Tensor& x, double a, double b) { at::clamp_(x, a, b); },
        .backward =
            [](const Gradient& g) {
              return at::where(passes_clamp(g.known, g.a, g.b), g.grad, 0);  // 0 of infinity too
            },
    },
    hardtanh("hardtanh", -1, 1, {"min_val", "max_val"}),
    hardtanh("relu6", 0, 6),
    {
        .name = "sigmoid",
        .standard = {Kind::kSigmoid},
        .aten = "sigmoid",
        .derives_from = From::kResult,
        .forward = [](const Tensor& x, double, double) { return at::sigmoid(x); },
        .in_place = [](Tensor& x, double, double) { at::sigmoid_(x); },
        .backward = [](const Gradient& g) { return at::sigmoid_backward(g.grad, g.known); },
    },
    {
        .name = "tanh",
        .standard = {Kind::kTanh},
        .aten = "tanh",
        .derives_from = From::kResult,
        .forward = [](const Tensor& x, double, double) { return at::tanh(x); },
        .in_place = [](Tensor& x, double, double) { at::tanh_(x); },
        .backward = [](const Gradient& g) { return at::tanh_backward(g.grad, g.known); },
    },
    {
        .name = "silu",
        .standard = {Kind::kSilu},
        .aten = "silu",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double, double) { return at::silu(x); },
        .in_place = [](Tensor& x, double, double) { at::silu_(x); },
        .backward =
            [](const Gradient& g) {
              return g.differentiable ? differentiable_silu_backward(g.grad, g.known)
                                      : at::silu_backward(g.grad, g.known);
            },
    },
    {
        .name = "gelu",
        .standard = {Kind::kGelu},
        .aten = "gelu",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double, double) { return at::gelu(x, "none"); },
        .in_place = [](Tensor& x, double, double) { at::gelu_(x, "none"); },
        .backward = [](const Gradient& g) { return at::gelu_backward(g.grad, g.known, "none"); },
    },
    {
        .name = "gelu_tanh",
        .standard = {Kind::kGeluTanh},
        .aten = "gelu",
        .approximate = "tanh",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double, double) { return at::gelu(x, "tanh"); },
        .in_place = [](Tensor& x, double, double) { at::gelu_(x, "tanh"); },
        .backward = [](const Gradient& g) { return at::gelu_backward(g.grad, g.known, "tanh"); },
    },
    {
        .name = "hardswish",
        .standard = {Kind::kHardswish},
        .aten = "hardswish",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double, double) { return at::hardswish(x); },
        .in_place = [](Tensor& x, double, double) { at::hardswish_(x); },
        .backward = [](const Gradient& g) { return at::hardswish_backward(g.grad, g.known); },
    },
    {
        .name = "hardsigmoid",
        .standard = {Kind::kHardsigmoid},
        .aten = "hardsigmoid",
        .derives_from = From::kGiven,
        // at::hardsigmoid has only a first derivative.
        .forward = [](const Tensor& x, double, double) -> Tensor {
          return at::hardtanh(x + 3, 0, 6) / 6;
        },
        .in_place = [](Tensor& x, double, double) { at::hardsigmoid_(x); },
        .backward =
            [](const Gradient& g) {
              return g.differentiable ? differentiable_hardsigmoid_backward(g.grad, g.known)
                                      : at::hardsigmoid_backward(g.grad, g.known);
            },
    },
    {
        .name = "mish",
        .standard = {Kind::kMish},
        .aten = "mish",
        .derives_from = From::kGiven,
        .forward = [](const Tensor& x, double, double) { return at::mish(x); },
        .in_place = [](Tensor& x, double, double) { at::mish_(x); },
        .backward =
            [](const Gradient& g) {
              return g.differentiable ? differentiable_mish_backward(g.grad, g.known)
                                      : at::mish_backward(g.grad, g.known);
            },
    },
    {
        .name = "elu",
        .standard = {Kind::kElu, 1},
        .arguments = {"alpha"},
        .aten = "elu",
        .derives_from = From::kEither,
        .forward = [](const Tensor& x, double a, double) { return at::elu(x, a); },
        .in_place = [](Tensor& x, double a, double) { at::elu_(x, a); },
        .backward =
            [](const Gradient& g) {
              return at::elu_backward(g.grad, g.a, 1, 1, g.is_result, g.known);
            },
    },
};

}  // namespace

std::span<const ActivationEntry> activation_table() { return kTable; }

}  // namespace haloconv
