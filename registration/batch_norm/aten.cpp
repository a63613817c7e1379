#include "registration/batch_norm/aten.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "registration/conv2d/epilogue.h"

namespace haloconv::aten {
namespace {

// A vector of channels in the type in which ATen computes: it takes no other one beside 16-bit
// types.
ops::OptionalTensor widened(const ops::OptionalTensor& vector, const at::Tensor& input) {
  if (!is_given(vector)) return std::nullopt;
  return vector->to(at::toOpMathType(input.scalar_type()));
}

// Zero for each channel of an input without elements, by whose number ATen's operators divide.
at::Tensor zeros(const at::Tensor& input) {
  return at::zeros({input.size(1)}, input.options().dtype(at::toOpMathType(input.scalar_type())));
}

// Running statistics that were updated in the wider type.
void keep(const ops::OptionalTensor& updated, const ops::OptionalTensor& running) {
  const at::NoGradGuard no_grad;
  if (updated && !updated->is_same(*running)) running->copy_(*updated);
}

// What the activation is applied to, with the statistics that ATen gives.
ops::BatchNormResults before_activation(const at::Tensor& input, const ops::OptionalTensor& weight,
                                        const ops::OptionalTensor& bias,
                                        const ops::OptionalTensor& running_mean,
                                        const ops::OptionalTensor& running_var,
                                        const ops::OptionalTensor& residual, double momentum,
                                        double eps) {
  const auto wide_mean = widened(running_mean, input), wide_var = widened(running_var, input);
  auto [result, mean, invstd] =
      at::native_batch_norm(input, widened(weight, input), widened(bias, input), wide_mean,
                            wide_var, /*training=*/true, momentum, eps);
  keep(wide_mean, running_mean);
  keep(wide_var, running_var);
  if (is_given(residual)) return {result + *residual, mean, invstd};
  return {result, mean, invstd};
}

}  // namespace

ops::BatchNormResults batch_norm(const at::Tensor& input, const ops::OptionalTensor& weight,
                                 const ops::OptionalTensor& bias,
                                 const ops::OptionalTensor& running_mean,
                                 const ops::OptionalTensor& running_var,
                                 const ops::OptionalTensor& residual, double momentum, double eps,
                                 const Activation& activation) {
  // Running statistics stay, as torch's function keeps them.
  if (input.numel() == 0) {
    return {input.clone(input.suggest_memory_format()), zeros(input), zeros(input)};
  }
  auto [result, mean, invstd] =
      before_activation(input, weight, bias, running_mean, running_var, residual, momentum, eps);
  if (activation.kind != ActivationKind::kNone) result = activate(activation, result);
  const auto wide = at::toOpMathType(input.scalar_type());
  return {result.contiguous(input.suggest_memory_format()), mean.to(wide), invstd.to(wide)};
}

ops::BatchNormGradients batch_norm_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output, double eps,
    const Activation& activation, bool with_residual) {
  const auto format = input.suggest_memory_format();
  if (input.numel() == 0) {
    return {input.clone(format), with_residual ? input.clone(format) : at::Tensor(), zeros(input),
            zeros(input)};
  }
  at::Tensor gradient =
      is_given(second_grad_output) ? grad_output + *second_grad_output : grad_output;
  if (activation.kind != ActivationKind::kNone) {
    at::Tensor known =
        std::get<0>(before_activation(input, weight, bias, {}, {}, residual, 0, eps));
    if (derives_from_result(activation)) known = activate(activation, known);
    gradient = activate_backward(activation, gradient, known);
  }
  auto factor = widened(weight, input);
  if (!factor) factor = at::ones_symint(input.sym_size(1), mean.options());
  const auto [grad_input, grad_weight, grad_bias] =
      at::native_batch_norm_backward(gradient, input, factor, {}, {}, mean, invstd,
                                     /*train=*/true, eps, {true, true, true});
  at::Tensor grad_residual;
  if (with_residual) {
    grad_residual = gradient.contiguous(format);
    // A result is no view of an operand.
    if (grad_residual.is_alias_of(grad_output)) grad_residual = grad_residual.clone();
  }
  return {grad_input.contiguous(format), grad_residual, grad_weight, grad_bias};
}

}  // namespace haloconv::aten
