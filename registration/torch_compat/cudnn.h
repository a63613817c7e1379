// cuDNN's forward convolution as ATen calls it, without ATen's choice: at every call ATen asks
// again which of its implementations to take, which for small problems is a good part of the call.
#pragma once

#include <optional>

#include "registration/conv2d/checks.h"

namespace haloconv::cudnn {

// Whether ATen would compute this call by cuDNN, on the tensors as they are and in the result's
// layout. That depends on the problem and on `settings()`.
bool is_atens_choice(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias);

// The user's settings on which that choice depends, as a number.
int settings();

// Only to be called if it is ATen's choice.
at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias);

}  // namespace haloconv::cudnn
