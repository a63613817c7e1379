// Batch norm and what follows it by ATen's operators, on any device. Differentiable where autograd
// records: to any order, as far as ATen's operators are.
#pragma once

#include "registration/batch_norm/ops.h"
#include "registration/conv2d/activation.h"

namespace haloconv::aten {

// Arguments have been checked. Statistics are of the type in which ATen computes with the input's.
ops::BatchNormResults batch_norm(const at::Tensor& input, const ops::OptionalTensor& weight,
                                 const ops::OptionalTensor& bias,
                                 const ops::OptionalTensor& running_mean,
                                 const ops::OptionalTensor& running_var,
                                 const ops::OptionalTensor& residual, double momentum, double eps,
                                 const Activation& activation);

ops::BatchNormGradients batch_norm_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const ops::OptionalTensor& weight,
    const ops::OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
    const ops::OptionalTensor& residual, const ops::OptionalTensor& second_grad_output, double eps,
    const Activation& activation, bool with_residual);

}  // namespace haloconv::aten
