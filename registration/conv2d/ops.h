// The registered operators as functions of tensors and symbolic integers, called through the
// dispatcher. Kernels of one dispatch key call the next key's kernels with these.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>

#include "registration/conv2d/forward_ops.h"
#include "registration/conv2d/parameters.h"

namespace haloconv::ops {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalFormat = std::optional<at::MemoryFormat>;

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                  const Conv2dParameters& parameters);

// `op` itself, and its other operators.
at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const OptionalTensor& bias, const ForwardParameters& parameters);

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const OptionalTensor& bias, const ForwardParameters& parameters,
                         const OptionalTensor& scale, const OptionalTensor& shift,
                         const OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments);

std::string explain(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const OptionalTensor& bias, const ForwardParameters& parameters,
                    c10::string_view direction);

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        c10::SymIntArrayRef input_size, const Conv2dParameters& parameters,
                        OptionalFormat memory_format);

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        c10::SymIntArrayRef kernel_size, const Conv2dParameters& parameters,
                        OptionalFormat memory_format);

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     c10::SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& parameters,
                                                     OptionalFormat memory_format);

// Both gradients, and that of the bias if it is asked for; otherwise the third is undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    const Conv2dParameters& parameters, bool with_bias, OptionalFormat input_format,
    OptionalFormat weight_format);

}  // namespace haloconv::ops
