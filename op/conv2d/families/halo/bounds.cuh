// Activations that only bound a value. They take an instruction or two, and so are part of the
// plain loops that write results. The other activations have loops of their own.
#pragma once

#include <cuda/std/limits>

#include "conv2d/epilogue/fusion.h"

namespace haloconv::halo {

__device__ __forceinline__ bool only_bounds(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu ||
         kind == ActivationKind::kClamp || kind == ActivationKind::kHardtanh;
}

struct Bounds {
  float least, most;
  bool has_most;

  __device__ __forceinline__ explicit Bounds(const Activation& activation) {
    constexpr float kInfinity = cuda::std::numeric_limits<float>::infinity();
    const bool is_none = activation.kind == ActivationKind::kNone;
    has_most = !is_none && activation.kind != ActivationKind::kRelu;
    least = is_none ? -kInfinity : has_most ? static_cast<float>(activation.a) : 0;
    most = static_cast<float>(activation.b);
  }

  // NaN stays NaN.
  template <int kRows, int kCount, int kVector>
  __device__ __forceinline__ void apply(float (&values)[kRows][kCount][kVector]) const {
    for_each(values, [&](float& value) {
      asm("max.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(least));
    });
    if (!has_most) return;
    for_each(values, [&](float& value) {
      asm("min.NaN.f32 %0, %0, %1;" : "+f"(value) : "f"(most));
    });
  }

 private:
  template <int kRows, int kCount, int kVector, class Body>
  static __device__ __forceinline__ void for_each(float (&values)[kRows][kCount][kVector],
                                                  Body body) {
#pragma unroll
    for (auto& row : values) {
#pragma unroll
      for (auto& vector : row) {
#pragma unroll
        for (float& value : vector) body(value);
      }
    }
  }
};

}  // namespace haloconv::halo
