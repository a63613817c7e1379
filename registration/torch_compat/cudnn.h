// cuDNN's forward convolution as ATen calls it, without the way there: ATen asks at every call anew
// which of its implementations to take, which for small problems is a good part of the call.
#pragma once

#include <optional>

#include "registration/conv2d/checks.h"

namespace haloconv::cudnn {

// Whether ATen would compute this call by cuDNN, on the tensors as they are, in the result's
// layout. It depends on the problem and on `settings()`.
bool is_atens_choice(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias);

// The user's settings that choice depends on, as a number.
int settings();

// Only where it is ATen's choice.
at::Tensor fprop(const Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias);

}  // namespace haloconv::cudnn
