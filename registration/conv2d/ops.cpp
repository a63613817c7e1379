#include "registration/conv2d/ops.h"

#include <type_traits>

#include "registration/find_operator.h"

namespace haloconv::ops {
namespace {

// Calls the operator by the signature of its schema; kFunction's has Conv2dParameters instead.
template <auto* kFunction>
auto find_unpacked(const char* name) {
  return find_operator<std::remove_pointer_t<decltype(unpacked<kFunction>)>>(name);
}

// Calls the operator of `op` that `name` selects, by the signature of kFunction.
template <auto* kFunction, class... After>
auto call(const ForwardOp& op, const char* const ForwardOp::* name, const at::Tensor& input,
          const at::Tensor& weight, const OptionalTensor& bias, const ForwardParameters& p,
          const After&... after) {
  return for_forward_op(op, [&]<const ForwardOp & kOp>() {
    using Signature = std::remove_pointer_t<decltype(bound<kOp, kFunction>)>;
    static const auto found = find_operator<Signature>(kOp.*name);
    if constexpr (kOp.transposed) {
      return found.call(input, weight, bias, p.stride, p.padding, p.output_padding, p.groups,
                        p.dilation, after...);
    } else {
      return found.call(input, weight, bias, p.stride, p.padding, p.dilation, p.groups, after...);
    }
  });
}

}  // namespace

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                  const Conv2dParameters& p) {
  static const auto op = find_unpacked<conv2d>("haloconv::conv2d");
  return op.call(input, weight, bias, p.stride, p.padding, p.dilation, p.groups);
}

at::Tensor forward(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                   const OptionalTensor& bias, const ForwardParameters& parameters) {
  return call<forward>(op, &ForwardOp::name, input, weight, bias, parameters);
}

at::Tensor forward_fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                         const OptionalTensor& bias, const ForwardParameters& parameters,
                         const OptionalTensor& scale, const OptionalTensor& shift,
                         const OptionalTensor& residual, c10::string_view activation,
                         at::ArrayRef<double> activation_arguments) {
  return call<forward_fused>(op, &ForwardOp::fused, input, weight, bias, parameters, scale, shift,
                             residual, activation, activation_arguments);
}

std::string explain(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                    const OptionalTensor& bias, const ForwardParameters& parameters,
                    c10::string_view direction) {
  return call<explain>(op, &ForwardOp::explain, input, weight, bias, parameters, direction);
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

}  // namespace haloconv::ops
