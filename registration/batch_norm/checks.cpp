#include "registration/batch_norm/checks.h"

#include "registration/conv2d/checks.h"

namespace haloconv {
namespace {

constexpr const char* kForward = "haloconv::batch_norm_act";
constexpr const char* kBackward = "haloconv::batch_norm_act_backward";

void check_input(const char* op, const at::Tensor& input) {
  check_defined(op, "input", input);
  TORCH_CHECK(input.is_floating_point() && input.dim() >= 2, op,
              ": expected input to be floating-point numbers (n, c, ...), but got ",
              input.scalar_type(), " of size ", input.sym_sizes());
  TORCH_SYM_CHECK(input.sym_size(1).sym_ge(1), op,
                  ": expected input to have channels, but got a tensor of size ",
                  input.sym_sizes());
  const c10::SymInt values = input.sym_numel() / input.sym_size(1);
  TORCH_CHECK_VALUE(!TORCH_GUARD_OR_FALSE(values.sym_eq(1)),
                    "Expected more than 1 value per channel when training, got input size ",
                    input.sym_sizes(), "; ", op, ": expected input to hold several values of each");
}

void check_channels(const char* op, const char* name, const at::Tensor& input,
                    const ops::OptionalTensor& tensor) {
  if (!is_given(tensor)) return;
  TORCH_CHECK(tensor->dim() == 1, op, ": expected ", name, " to have one dimension, but got ",
              tensor->sym_sizes());
  TORCH_SYM_CHECK(tensor->sym_size(0).sym_eq(input.sym_size(1)), op, ": expected ", name,
                  " to have one value for each channel of input, ", input.sym_size(1), ", but got ",
                  tensor->sym_sizes());
  TORCH_CHECK(tensor->device() == input.device(), op, ": expected ", name,
              " to be on input's device, ", input.device(), ", but got ", tensor->device());
}

void check_alike(const char* op, const char* name, const at::Tensor& input,
                 const ops::OptionalTensor& tensor) {
  if (!is_given(tensor)) return;
  TORCH_CHECK(tensor->sym_sizes().equals(input.sym_sizes()) &&
                  tensor->scalar_type() == input.scalar_type() &&
                  tensor->device() == input.device(),
              op, ": expected ", name, " to have input's size, dtype and device, ",
              input.sym_sizes(), ", ", input.scalar_type(), " and ", input.device(), ", but got ",
              tensor->sym_sizes(), ", ", tensor->scalar_type(), " and ", tensor->device());
}

}  // namespace

Activation check_batch_norm(const at::Tensor& input, const ops::OptionalTensor& weight,
                            const ops::OptionalTensor& bias,
                            const ops::OptionalTensor& running_mean,
                            const ops::OptionalTensor& running_var,
                            const ops::OptionalTensor& residual, c10::string_view activation) {
  check_input(kForward, input);
  check_channels(kForward, "weight", input, weight);
  check_channels(kForward, "bias", input, bias);
  check_channels(kForward, "running_mean", input, running_mean);
  check_channels(kForward, "running_var", input, running_var);
  check_alike(kForward, "residual", input, residual);
  return check_activation(activation, {}, kForward);
}

Activation check_batch_norm_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                     const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias, const at::Tensor& mean,
                                     const at::Tensor& invstd, const ops::OptionalTensor& residual,
                                     const ops::OptionalTensor& second_grad_output,
                                     c10::string_view activation, bool with_residual) {
  TORCH_CHECK(!with_residual || is_given(residual), kBackward,
              ": expected residual for with_residual=True, but got none");
  check_input(kBackward, input);
  check_defined(kBackward, "grad_output", grad_output);
  check_defined(kBackward, "mean", mean);
  check_defined(kBackward, "invstd", invstd);
  check_alike(kBackward, "grad_output", input, grad_output);
  check_channels(kBackward, "weight", input, weight);
  check_channels(kBackward, "bias", input, bias);
  check_channels(kBackward, "mean", input, mean);
  check_channels(kBackward, "invstd", input, invstd);
  check_alike(kBackward, "residual", input, residual);
  check_alike(kBackward, "second_grad_output", input, second_grad_output);
  return check_activation(activation, {}, kBackward);
}

}  // namespace haloconv
