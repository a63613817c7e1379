// The table of conv2d_fused's activations: all that the operator, its gradient, the rewriting of
// saved models and the Python package know of each. Only what kernels compute is elsewhere:
// with_activation() in op/.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <string_view>

#include "conv2d/epilogue/fusion.h"

namespace haloconv {

// What an activation's derivative is computed from: its result, or what it was given. kEither: the
// result if the activation's argument is not negative, because it then has the sign of what was
// given.
enum class DerivesFrom { kResult, kGiven, kEither };

struct ActivationGradient {
  const at::Tensor& grad;   // of the result
  const at::Tensor& known;  // the result, or what was given
  double a, b;              // the activation's arguments
  bool is_result;           // whether `known` is the result
  bool differentiable;      // whether the gradient may be differentiated in turn
};

struct ActivationEntry {
  // "": no argument, from here on.
  using ArgumentNames = std::array<std::string_view, 2>;

  size_t argument_count() const { return arguments[0].empty() ? 0 : arguments[1].empty() ? 1 : 2; }

  std::string_view name;              // in conv2d_fused
  Activation standard;                // with the default arguments
  ArgumentNames arguments = {};       // those of `aten` that a call may give
  bool required = false;              // whether it must: there are no defaults
  std::string_view aten = {};         // ATen's operator; "" is the identity
  std::string_view approximate = {};  // ATen's argument of this name; "" is its default

  DerivesFrom derives_from;
  // A new tensor, differentiable to any order.
  at::Tensor (*forward)(const at::Tensor& x, double a, double b);
  void (*in_place)(at::Tensor& x, double a, double b);
  at::Tensor (*backward)(const ActivationGradient&);
};

std::span<const ActivationEntry> activation_table();

}  // namespace haloconv
