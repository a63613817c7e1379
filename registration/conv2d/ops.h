// The registered operators as functions of tensors and symbolic integers, called through the
// dispatcher. Kernels of one dispatch key call the next key's kernels with these.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <optional>
#include <string>
#include <tuple>

namespace haloconv::ops {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalFormat = std::optional<at::MemoryFormat>;

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                  c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                  c10::SymIntArrayRef dilation, c10::SymInt groups);

at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const OptionalTensor& bias, c10::SymIntArrayRef stride,
                        c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                        c10::SymInt groups, const OptionalTensor& scale,
                        const OptionalTensor& shift, const OptionalTensor& residual,
                        c10::string_view activation, at::ArrayRef<double> activation_arguments);

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        c10::SymIntArrayRef input_size, c10::SymIntArrayRef stride,
                        c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                        c10::SymInt groups, OptionalFormat memory_format);

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        c10::SymIntArrayRef kernel_size, c10::SymIntArrayRef stride,
                        c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                        c10::SymInt groups, OptionalFormat memory_format);

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(
    const at::Tensor& grad_output, const at::Tensor& input, c10::SymIntArrayRef kernel_size,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    c10::SymInt groups, OptionalFormat memory_format);

// Both gradients, and the bias' if it is asked for; else the third is undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    c10::SymInt groups, bool with_bias, OptionalFormat input_format, OptionalFormat weight_format);

std::string explain(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                    c10::SymIntArrayRef dilation, c10::SymInt groups, c10::string_view direction);

}  // namespace haloconv::ops
