// What a fused operator does to the convolution's result, computed by ATen's operators.
#pragma once

#include "registration/conv2d/activation.h"
#include "registration/conv2d/ops.h"

namespace haloconv {

// C++ callers may pass an undefined tensor for none.
inline bool is_given(const ops::OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

// activation(result * scale + shift + residual)
struct Epilogue {
  Epilogue(const ForwardOp& op, const ops::OptionalTensor& scale, const ops::OptionalTensor& shift,
           const ops::OptionalTensor& residual, c10::string_view activation,
           at::ArrayRef<double> activation_arguments);

  // A new tensor, differentiable; `result` is that of `op`, with or without n.
  at::Tensor apply(const at::Tensor& result) const;
  // If that keeps the type: most activations give floating-point numbers for integers.
  void apply_in_place(const at::Tensor& result) const;
  static bool keeps_type(const at::Tensor& result);

  int64_t pixel_dims;                // of `op`
  ops::OptionalTensor scale, shift;  // (k)
  ops::OptionalTensor residual;      // as the result
  Activation activation;

 private:
  at::Tensor per_channel(const ops::OptionalTensor& tensor) const;
  bool has_channels(const at::Tensor& result) const;
};

// (k) -> (k, 1, 1), or (k, 1) where a pixel has one dimension.
at::Tensor add_pixel_dims(const at::Tensor& tensor, int64_t pixel_dims);

}  // namespace haloconv
