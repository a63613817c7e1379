// The public functions of conv2d's relatives.
#include "registration/conv2d.h"
#include "registration/conv2d/ops.h"
#include "registration/conv2d/public_arguments.h"
#include "registration/find_operator.h"

namespace haloconv {
namespace {

ForwardParameters of_transposed(at::IntArrayRef stride, at::IntArrayRef padding,
                                at::IntArrayRef output_padding, int64_t groups,
                                at::IntArrayRef dilation) {
  return {parameters_of(stride, padding, dilation, groups), sym(output_padding)};
}

at::Tensor fused(const ForwardOp& op, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                 const ForwardParameters& parameters) {
  return ops::forward_fused(op, defined("input", input), weight, bias, parameters, fusion.scale,
                            fusion.shift, fusion.residual, fusion.activation,
                            fusion.activation_arguments);
}

}  // namespace

at::Tensor conv_transpose2d(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                            at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups,
                            at::IntArrayRef dilation) {
  return ops::forward(kConvTranspose2d, defined("input", input), weight, bias,
                      of_transposed(stride, padding, output_padding, groups, dilation));
}

at::Tensor conv_transpose2d_fused(const at::Tensor& input, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                                  at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef output_padding, int64_t groups,
                                  at::IntArrayRef dilation) {
  return fused(kConvTranspose2d, input, weight, bias, fusion,
               of_transposed(stride, padding, output_padding, groups, dilation));
}

std::string conv_transpose2d_explain(const at::Tensor& input, const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                     at::IntArrayRef padding, at::IntArrayRef output_padding,
                                     int64_t groups, at::IntArrayRef dilation,
                                     std::string_view direction) {
  return ops::explain(kConvTranspose2d, defined("input", input), weight, bias,
                      of_transposed(stride, padding, output_padding, groups, dilation), direction);
}

at::Tensor conv1d(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                  at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups) {
  return ops::forward(kConv1d, defined("input", input), weight, bias,
                      {parameters_of(stride, padding, dilation, groups), {}});
}

at::Tensor conv1d_named_padding(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                std::string_view padding, at::IntArrayRef dilation,
                                int64_t groups) {
  static const auto op = find_operator<NamedPaddingSignature>(kConv1d.name, "padding");
  return op.call(defined("input", input), weight, bias, sym(stride), padding, sym(dilation),
                 groups);
}

at::Tensor conv1d_fused(const at::Tensor& input, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        int64_t groups) {
  return fused(kConv1d, input, weight, bias, fusion,
               {parameters_of(stride, padding, dilation, groups), {}});
}

std::string conv1d_explain(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                           at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                           std::string_view direction) {
  return ops::explain(kConv1d, defined("input", input), weight, bias,
                      {parameters_of(stride, padding, dilation, groups), {}}, direction);
}

at::Tensor conv_transpose1d(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                            at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups,
                            at::IntArrayRef dilation) {
  return ops::forward(kConvTranspose1d, defined("input", input), weight, bias,
                      of_transposed(stride, padding, output_padding, groups, dilation));
}

at::Tensor conv_transpose1d_fused(const at::Tensor& input, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, const Conv2dFusion& fusion,
                                  at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef output_padding, int64_t groups,
                                  at::IntArrayRef dilation) {
  return fused(kConvTranspose1d, input, weight, bias, fusion,
               of_transposed(stride, padding, output_padding, groups, dilation));
}

std::string conv_transpose1d_explain(const at::Tensor& input, const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                     at::IntArrayRef padding, at::IntArrayRef output_padding,
                                     int64_t groups, at::IntArrayRef dilation,
                                     std::string_view direction) {
  return ops::explain(kConvTranspose1d, defined("input", input), weight, bias,
                      of_transposed(stride, padding, output_padding, groups, dilation), direction);
}

}  // namespace haloconv
