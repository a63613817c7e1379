// The registered operators as functions, called through the dispatcher; kernels of one dispatch key
// call the next key's kernels with these.
//
//   result = activation(normalized input * weight + bias + residual)
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace haloconv::ops {

using OptionalTensor = std::optional<at::Tensor>;
using BatchNormResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // result, mean, invstd
// Of input, residual (undefined unless it is asked for), weight and bias.
using BatchNormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Batch norm in training: updates the running statistics that are given.
BatchNormResults batch_norm_act(const at::Tensor& input, const OptionalTensor& weight,
                                const OptionalTensor& bias, const OptionalTensor& running_mean,
                                const OptionalTensor& running_var, const OptionalTensor& residual,
                                double momentum, double eps, c10::string_view activation);

// `mean` and `invstd` are forward's; the gradient of the result is the sum of both that are given.
BatchNormGradients batch_norm_act_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                           const OptionalTensor& weight, const OptionalTensor& bias,
                                           const at::Tensor& mean, const at::Tensor& invstd,
                                           const OptionalTensor& residual,
                                           const OptionalTensor& second_grad_output, double eps,
                                           c10::string_view activation, bool with_residual);

}  // namespace haloconv::ops
