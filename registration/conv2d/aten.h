// The implementation `aten`: ATen's own convolution, on any device for which ATen has one.
//
// Tensors are 4-D and have been checked; results have exactly the format that `args` asks for.
#pragma once

#include <optional>
#include <tuple>

#include "registration/conv2d/checks.h"

namespace haloconv::aten {

at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias);

// dgrad with a bias: the forward pass of a transposed convolution.
at::Tensor transposed(const Conv2dArguments& args, const at::Tensor& input,
                      const at::Tensor& weight, const std::optional<at::Tensor>& bias);

// `input` is the convolution's, or undefined: ATen reads only its size and layout.
at::Tensor dgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& weight, const at::Tensor& input = {});

at::Tensor wgrad(const Conv2dArguments& args, const at::Tensor& grad_output,
                 const at::Tensor& input);

// The gradient of a bias: `grad_output`, with or without n, summed over images and pixels.
at::Tensor sum_over_pixels(const at::Tensor& grad_output);

// The gradients of weight and bias.
std::tuple<at::Tensor, at::Tensor> wgrad_bias(const Conv2dArguments& args,
                                              const at::Tensor& grad_output,
                                              const at::Tensor& input);

// All gradients by one call of ATen. Without `with_bias` the third is undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const Conv2dBackwardArguments& args,
                                                        const at::Tensor& grad_output,
                                                        const at::Tensor& input,
                                                        const at::Tensor& weight, bool with_bias);

}  // namespace haloconv::aten
