// What is fused, for kernels that write the values by themselves.
#pragma once

#include "conv2d/device/fuse.cuh"

namespace haloconv {

// Makes sums activation((sum + bias) * scale + shift + residual), of the elements that exist. What
// is left out counts as a number that changes nothing: not even the sign of a zero.
template <class T>
__device__ __forceinline__ void fuse_values(const void* bias, const Fusion& fusion,
                                            const OutputElement (&elements)[kFusedAtOnce],
                                            float (&values)[kFusedAtOnce]) {
  float residuals[kFusedAtOnce];
#pragma unroll
  for (int i = 0; i < kFusedAtOnce; ++i) {
    residuals[i] =
        load_or<T>(elements[i].exists ? fusion.residual : nullptr, elements[i].offset, -0.0f);
  }
#pragma unroll
  for (int i = 0; i < kFusedAtOnce; ++i) {
    if (!elements[i].exists) continue;
    const int64_t channel = elements[i].channel;
    values[i] =
        (values[i] + load_or<T>(bias, channel, -0.0f)) * load_or<T>(fusion.scale, channel, 1.0f) +
        load_or<T>(fusion.shift, channel, -0.0f) + residuals[i];
  }
  with_activation(fusion.activation, [&](auto activation) {
#pragma unroll
    for (float& value : values) value = activation(value);
  });
}

}  // namespace haloconv
