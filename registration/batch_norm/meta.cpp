// Meta kernels: results without elements, of the sizes and strides that real ones have.
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "registration/batch_norm/checks.h"
#include "registration/library.h"

namespace haloconv {
namespace {

at::Tensor empty_images(const at::Tensor& input) {
  return at::empty_like(input, input.options().memory_format(input.suggest_memory_format()));
}

at::Tensor empty_vector(const at::Tensor& input) {
  const auto wide = at::toOpMathType(input.scalar_type());
  return at::empty_symint({input.sym_size(1)}, input.options().dtype(wide));
}

ops::BatchNormResults batch_norm_act(const at::Tensor& input, const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias,
                                     const ops::OptionalTensor& running_mean,
                                     const ops::OptionalTensor& running_var,
                                     const ops::OptionalTensor& residual, double /*momentum*/,
                                     double /*eps*/, c10::string_view activation) {
  check_batch_norm(input, weight, bias, running_mean, running_var, residual, activation);
  return {empty_images(input), empty_vector(input), empty_vector(input)};
}

ops::BatchNormGradients batch_norm_act_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output,
    double /*eps*/, c10::string_view activation, bool with_residual) {
  check_batch_norm_backward(grad_output, input, weight, bias, mean, invstd, residual,
                            second_grad_output, activation, with_residual);
  return {empty_images(input), with_residual ? empty_images(input) : at::Tensor(),
          empty_vector(input), empty_vector(input)};
}

HALOCONV_IMPLEMENT(Meta, m) {
  m.impl("batch_norm_act", &batch_norm_act);
  m.impl("batch_norm_act_backward", &batch_norm_act_backward);
}

}  // namespace
}  // namespace haloconv
