#include "registration/conv2d/epilogue.h"

#include <ATen/TensorOperators.h>

namespace haloconv {

at::Tensor add_pixel_dims(const at::Tensor& tensor, int64_t pixel_dims) {
  return pixel_dims == 2 ? tensor.unsqueeze(-1).unsqueeze(-1) : tensor.unsqueeze(-1);
}

Epilogue::Epilogue(const ForwardOp& op, const ops::OptionalTensor& scale,
                   const ops::OptionalTensor& shift, const ops::OptionalTensor& residual,
                   c10::string_view activation, at::ArrayRef<double> activation_arguments)
    : pixel_dims(op.pixel_dims),
      scale(scale),
      shift(shift),
      residual(residual),
      activation(check_activation(activation, activation_arguments, op.fused)) {}

at::Tensor Epilogue::per_channel(const ops::OptionalTensor& tensor) const {
  return add_pixel_dims(*tensor, pixel_dims);
}

// An input without channels has a result without channels, which takes nothing for each filter.
bool Epilogue::has_channels(const at::Tensor& result) const {
  return !TORCH_GUARD_OR_FALSE(result.sym_size(-1 - pixel_dims).sym_eq(0));
}

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
