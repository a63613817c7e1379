#include "registration/conv2d/epilogue.h"

#include <ATen/TensorOperators.h>

namespace haloconv {
namespace {

// (k) -> (k, 1, 1)
at::Tensor per_channel(const ops::OptionalTensor& tensor) {
  return tensor->unsqueeze(-1).unsqueeze(-1);
}

// An input without channels has a result without channels, which takes nothing of the filters'.
bool has_channels(const at::Tensor& result) {
  return !TORCH_GUARD_OR_FALSE(result.sym_size(-3).sym_eq(0));
}

}  // namespace

Epilogue::Epilogue(const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
                   const ops::OptionalTensor& residual, c10::string_view activation,
                   at::ArrayRef<double> activation_arguments)
    : scale(scale),
      shift(shift),
      residual(residual),
      activation(check_activation(activation, activation_arguments, "haloconv::conv2d_fused")) {}

at::Tensor Epilogue::apply(const at::Tensor& result) const {
  at::Tensor value = result;
  if (has_channels(result)) {
    if (is_given(scale)) value = value * per_channel(scale);
    if (is_given(shift)) value = value + per_channel(shift);
  }
  if (is_given(residual)) value = value + *residual;
  return activate(activation, value);
}

bool Epilogue::keeps_type(const at::Tensor& result) {
  return result.is_floating_point() || result.is_complex();
}

void Epilogue::apply_in_place(const at::Tensor& result) const {
  if (has_channels(result)) {
    if (is_given(scale)) result.mul_(per_channel(scale));
    if (is_given(shift)) result.add_(per_channel(shift));
  }
  if (is_given(residual)) result.add_(*residual);
  activate_in_place(activation, result);
}

}  // namespace haloconv
