#include "registration/conv2d.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "registration/conv2d/checks.h"
#include "registration/conv2d/ops.h"
#include "registration/library.h"

namespace haloconv {
namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name, const char* overload = "") {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  TORCH_CHECK(found.has_value(), name, ": the operator is not registered; ", why_idle());
  return found->typed<Signature>();
}

// By the signature of its schema, of which that of kFunction has Conv2dParameters.
template <auto* kFunction>
auto find_unpacked(const char* name) {
  return find_operator<std::remove_pointer_t<decltype(unpacked<kFunction>)>>(name);
}

c10::SymIntArrayRef sym(at::IntArrayRef values) { return c10::fromIntArrayRefSlow(values); }

Conv2dParameters parameters_of(at::IntArrayRef stride, at::IntArrayRef padding,
                               at::IntArrayRef dilation, int64_t groups) {
  return {sym(stride), sym(padding), sym(dilation), groups};
}

// The dispatcher takes the device of any tensor, and without one knows no more to say.
const at::Tensor& defined(const char* name, const at::Tensor& tensor) {
  check_defined("haloconv", name, tensor);
  return tensor;
}

}  // namespace

namespace ops {

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                  const Conv2dParameters& p) {
  static const auto op = find_unpacked<conv2d>("haloconv::conv2d");
  return op.call(input, weight, bias, p.stride, p.padding, p.dilation, p.groups);
}

at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const OptionalTensor& bias, const Conv2dParameters& p,
                        const OptionalTensor& scale, const OptionalTensor& shift,
                        const OptionalTensor& residual, c10::string_view activation,
                        at::ArrayRef<double> activation_arguments) {
  static const auto op = find_unpacked<conv2d_fused>("haloconv::conv2d_fused");
  return op.call(input, weight, bias, p.stride, p.padding, p.dilation, p.groups, scale, shift,
                 residual, activation, activation_arguments);
}

at::Tensor conv2d_dgrad(const at::Tensor& grad_output, const at::Tensor& weight,
                        c10::SymIntArrayRef input_size, const Conv2dParameters& p,
                        OptionalFormat memory_format) {
  static const auto op = find_unpacked<conv2d_dgrad>("haloconv::conv2d_dgrad");
  return op.call(grad_output, weight, input_size, p.stride, p.padding, p.dilation, p.groups,
                 memory_format);
}

at::Tensor conv2d_wgrad(const at::Tensor& grad_output, const at::Tensor& input,
                        c10::SymIntArrayRef kernel_size, const Conv2dParameters& p,
                        OptionalFormat memory_format) {
  static const auto op = find_unpacked<conv2d_wgrad>("haloconv::conv2d_wgrad");
  return op.call(grad_output, input, kernel_size, p.stride, p.padding, p.dilation, p.groups,
                 memory_format);
}

std::tuple<at::Tensor, at::Tensor> conv2d_wgrad_bias(const at::Tensor& grad_output,
                                                     const at::Tensor& input,
                                                     c10::SymIntArrayRef kernel_size,
                                                     const Conv2dParameters& p,
                                                     OptionalFormat memory_format) {
  static const auto op = find_unpacked<conv2d_wgrad_bias>("haloconv::conv2d_wgrad_bias");
  return op.call(grad_output, input, kernel_size, p.stride, p.padding, p.dilation, p.groups,
                 memory_format);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> conv2d_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    const Conv2dParameters& p, bool with_bias, OptionalFormat input_format,
    OptionalFormat weight_format) {
  static const auto op = find_unpacked<conv2d_backward>("haloconv::conv2d_backward");
  return op.call(grad_output, input, weight, p.stride, p.padding, p.dilation, p.groups, with_bias,
                 input_format, weight_format);
}

std::string explain(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                    const Conv2dParameters& p, c10::string_view direction) {
  static const auto op = find_unpacked<explain>("haloconv::explain");
  return op.call(input, weight, bias, p.stride, p.padding, p.dilation, p.groups, direction);
}

}  // namespace ops

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
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                 c10::SymIntArrayRef, c10::string_view, c10::SymIntArrayRef, c10::SymInt);
  static const auto op = find_operator<Signature>("haloconv::conv2d", "padding");
  return op.call(defined("input", input), weight, bias, sym(stride), padding, sym(dilation),
                 groups);
}

at::Tensor conv2d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        int64_t groups) {
  return ops::conv2d_fused(
      defined("input", input), weight, bias, parameters_of(stride, padding, dilation, groups),
      fusion.scale, fusion.shift, fusion.residual, fusion.activation, fusion.activation_arguments);
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
  return ops::explain(defined("input", input), weight, bias,
                      parameters_of(stride, padding, dilation, groups), direction);
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
