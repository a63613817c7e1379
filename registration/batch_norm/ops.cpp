#include "registration/batch_norm/ops.h"

#include "registration/find_operator.h"

namespace haloconv::ops {

BatchNormResults batch_norm_act(const at::Tensor& input, const OptionalTensor& weight,
                                const OptionalTensor& bias, const OptionalTensor& running_mean,
                                const OptionalTensor& running_var, const OptionalTensor& residual,
                                double momentum, double eps, c10::string_view activation) {
  static const auto op = find_operator<decltype(batch_norm_act)>("haloconv::batch_norm_act");
  return op.call(input, weight, bias, running_mean, running_var, residual, momentum, eps,
                 activation);
}

BatchNormGradients batch_norm_act_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                           const OptionalTensor& weight, const OptionalTensor& bias,
                                           const at::Tensor& mean, const at::Tensor& invstd,
                                           const OptionalTensor& residual,
                                           const OptionalTensor& second_grad_output, double eps,
                                           c10::string_view activation, bool with_residual) {
  static const auto op =
      find_operator<decltype(batch_norm_act_backward)>("haloconv::batch_norm_act_backward");
  return op.call(grad_output, input, weight, bias, mean, invstd, residual, second_grad_output, eps,
                 activation, with_residual);
}

}  // namespace haloconv::ops
