// The checks of an everyday call in one pass, without symbols and without the words of errors.
#pragma once

#include <optional>

#include "registration/conv2d/checks.h"

namespace haloconv {

// Whether a call of conv2d has a batch, no symbols among its sizes and parameters, and nothing that
// is wrong. `args`, as they are constructed, are then what check_forward() returns, else untouched:
// check_forward() reads the call step by step, for it has symbols or an error that is to be told.
bool read_plain_conv2d(Conv2dArguments& args, const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, const Conv2dParameters& parameters);

}  // namespace haloconv
