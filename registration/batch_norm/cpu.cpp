// CPU kernels: the arguments are checked, and ATen computes.
#include "registration/batch_norm/aten.h"
#include "registration/batch_norm/checks.h"
#include "registration/library.h"

namespace haloconv {
namespace {

ops::BatchNormResults batch_norm_act(const at::Tensor& input, const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias,
                                     const ops::OptionalTensor& running_mean,
                                     const ops::OptionalTensor& running_var,
                                     const ops::OptionalTensor& residual, double momentum,
                                     double eps, c10::string_view activation) {
  const Activation checked =
      check_batch_norm(input, weight, bias, running_mean, running_var, residual, activation);
  return aten::batch_norm(input, weight, bias, running_mean, running_var, residual, momentum, eps,
                          checked);
}

ops::BatchNormGradients batch_norm_act_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output, double eps,
    c10::string_view activation, bool with_residual) {
  const Activation checked =
      check_batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                second_grad_output, activation, with_residual);
  return aten::batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                                   second_grad_output, eps, checked, with_residual);
}

HALOCONV_IMPLEMENT(CPU, m) {
  m.impl("batch_norm_act", &batch_norm_act);
  m.impl("batch_norm_act_backward", &batch_norm_act_backward);
}

}  // namespace
}  // namespace haloconv
