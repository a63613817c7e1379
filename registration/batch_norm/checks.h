// What calls of batch norm must hold.
#pragma once

#include "registration/batch_norm/ops.h"
#include "registration/conv2d/activation.h"

namespace haloconv {

// Both raise c10::Error that names the argument, what it was and what was expected, and return the
// activation.
Activation check_batch_norm(const at::Tensor& input, const ops::OptionalTensor& weight,
                            const ops::OptionalTensor& bias,
                            const ops::OptionalTensor& running_mean,
                            const ops::OptionalTensor& running_var,
                            const ops::OptionalTensor& residual, c10::string_view activation);

Activation check_batch_norm_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                     const ops::OptionalTensor& weight,
                                     const ops::OptionalTensor& bias, const at::Tensor& mean,
                                     const at::Tensor& invstd, const ops::OptionalTensor& residual,
                                     const ops::OptionalTensor& second_grad_output,
                                     c10::string_view activation, bool with_residual);

}  // namespace haloconv
