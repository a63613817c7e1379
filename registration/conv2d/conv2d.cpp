#include "registration/conv2d.h"

#include "registration/conv2d/ops.h"
#include "registration/conv2d/public_arguments.h"
#include "registration/find_operator.h"

namespace haloconv {

const char* version() { return HALOCONV_VERSION; }

bool has_cuda() { return HALOCONV_HAS_CUDA; }

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                  at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups) {
  return ops::conv2d(defined("input", input), weight, bias,
                     parameters_of(stride, padding, dilation, groups));
}

at::Tensor conv2d_named_padding(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                std::string_view padding, at::IntArrayRef dilation,
                                int64_t groups) {
  static const auto op = find_operator<NamedPaddingSignature>(kConv2d.name, "padding");
  return op.call(defined("input", input), weight, bias, sym(stride), padding, sym(dilation),
                 groups);
}

at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        int64_t groups) {
  return ops::forward_fused(kConv2d, defined("input", input), weight, bias,
                            {parameters_of(stride, padding, dilation, groups), {}}, fusion.scale,
                            fusion.shift, fusion.residual, fusion.activation,
                            fusion.activation_arguments);
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        at::IntArrayRef input_size, at::IntArrayRef stride, at::IntArrayRef padding,
                        at::IntArrayRef dilation, int64_t groups,
                        std::optional<at::MemoryFormat> memory_format) {
  return ops::conv2d_dgrad(defined("grad_output", grad_output), weight, sym(input_size),
                           parameters_of(stride, padding, dilation, groups), memory_format);
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        at::IntArrayRef kernel_size, at::IntArrayRef stride,
                        at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                        std::optional<at::MemoryFormat> memory_format) {
  return ops::conv2d_wgrad(defined("grad_output", grad_output), input, sym(kernel_size),
                           parameters_of(stride, padding, dilation, groups), memory_format);
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(
    const at::Tensor& grad_output, const at::Tensor& input, at::IntArrayRef kernel_size,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
    std::optional<at::MemoryFormat> memory_format) {
  return ops::conv2d_wgrad_bias(defined("grad_output", grad_output), input, sym(kernel_size),
                                parameters_of(stride, padding, dilation, groups), memory_format);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
    bool with_bias, std::optional<at::MemoryFormat> input_format,
    std::optional<at::MemoryFormat> weight_format) {
  return ops::conv2d_backward(defined("grad_output", grad_output), input, weight,
                              parameters_of(stride, padding, dilation, groups), with_bias,
                              input_format, weight_format);
}

std::string explain(const at::Tensor& input, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                    at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                    std::string_view direction) {
  return ops::explain(kConv2d, defined("input", input), weight, bias,
                      {parameters_of(stride, padding, dilation, groups), {}}, direction);
}

namespace {

std::string force_implementation(std::string_view name) {
  static const auto op =
      find_operator<std::string(c10::string_view)>("haloconv::force_implementation");
  return op.call(name);
}

}  // namespace

ForceImplementation::ForceImplementation(std::string_view name)
    : previous_(force_implementation(name)) {}

ForceImplementation::~ForceImplementation() { force_implementation(previous_); }

}  // namespace haloconv
