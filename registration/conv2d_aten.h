// The implementation `aten`: ATen's own convolution, on any device that it has one for.
//
// Tensors are 4-D and have been checked; results have exactly the format that `args` asks for.
#pragma once

#include <optional>
#include <tuple>

#include "registration/conv2d_checks.h"

namespace haloconv::aten {

at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias);

at::Tensor dgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& weight);

at::Tensor wgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& input);

// The gradients of weight and bias.
std::tuple<at::Tensor, at::Tensor> wgrad_bias(const Conv2dArguments& args,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& input);

}  // namespace haloconv::aten
