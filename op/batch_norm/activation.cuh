// The activations that batch norm's kernels compute, and their derivatives.
#pragma once

#include <stdexcept>
#include <type_traits>

#include "conv2d/epilogue/fusion.h"

namespace haloconv::batch_norm {

template <ActivationKind kActivation>
__device__ __forceinline__ float activate(float z) {
  if constexpr (kActivation == ActivationKind::kRelu) return z < 0 ? 0 : z;
  if constexpr (kActivation == ActivationKind::kSilu) return z * activations::sigmoid(z);
  return z;
}

// The gradient of z, from that of activate(z). NaN is where ATen has it.
template <ActivationKind kActivation>
__device__ __forceinline__ float activate_backward(float gradient, float z) {
  if constexpr (kActivation == ActivationKind::kRelu) return z <= 0 ? 0 : gradient;
  if constexpr (kActivation == ActivationKind::kSilu) {
    const float s = activations::sigmoid(z);
    return gradient * s * (1 + z * (1 - s));
  }
  return gradient;
}

// Calls body with an activation that has kernels, as a std::integral_constant.
template <class Body>
void with_kernels_of(ActivationKind activation, Body body) {
  using enum ActivationKind;
  if (activation == kNone) return body(std::integral_constant<ActivationKind, kNone>{});
  if (activation == kRelu) return body(std::integral_constant<ActivationKind, kRelu>{});
  if (activation == kSilu) return body(std::integral_constant<ActivationKind, kSilu>{});
  throw std::logic_error("haloconv: batch norm has no kernel with this activation");
}

}  // namespace haloconv::batch_norm
