// conv2d_fused's activations by name, and ATen's functions for them.
#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "conv2d/epilogue/fusion.h"

namespace haloconv {

// `arguments` are all that the activation takes, or none for its defaults. Raises c10::Error for a
// name or arguments that do not exist; `op` begins the message.
Activation check_activation(std::string_view name, at::ArrayRef<double> arguments, const char* op);

// A new tensor, differentiable as ATen's function is.
at::Tensor activate(const Activation& activation, const at::Tensor& x);
void activate_in_place(const Activation& activation, const at::Tensor& x);

// Whether activate_backward() takes activate()'s result; otherwise it takes what activate() was
// given.
bool derives_from_result(const Activation& activation);
// The gradient of what activate() was given. Differentiable to any order.
at::Tensor activate_backward(const Activation& activation, const at::Tensor& grad,
                             const at::Tensor& known);

// For Python, for each name: ATen's operator ("": the identity) and its `approximate` ("": the
// default), the names of the arguments that a call may give, and their defaults, if any.
using ActivationRow =
    std::tuple<std::string, std::string, std::vector<std::string>, std::vector<double>>;
c10::Dict<std::string, ActivationRow> activations_by_name();

}  // namespace haloconv
