// Activations that only bound a value. They take two instructions, so that they can be part of the
// plain loops that write results; others are chosen in loops of their own.
#pragma once

#include <cuda/std/limits>

#include "conv2d/fusion.h"

namespace haloconv::sm90 {

__device__ __forceinline__ bool only_bounds(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu ||
         kind == ActivationKind::kClamp || kind == ActivationKind::kHardtanh;
}

struct Bounds {
  float least, most;

  __device__ __forceinline__ explicit Bounds(const Activation& activation) {
    constexpr float kInfinity = cuda::std::numeric_limits<float>::infinity();
    const bool is_none = activation.kind == ActivationKind::kNone;
    const bool has_most = !is_none && activation.kind != ActivationKind::kRelu;
    least = is_none ? -kInfinity : has_most ? static_cast<float>(activation.a) : 0;
    most = has_most ? static_cast<float>(activation.b) : kInfinity;
  }

  // NaN stays NaN.
  template <int kCount>
  __device__ __forceinline__ void apply(float (&values)[kCount]) const {
#pragma unroll
    for (float& value : values) {
      asm("max.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(least));
      asm("min.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(most));
    }
  }
};

}  // namespace haloconv::sm90
