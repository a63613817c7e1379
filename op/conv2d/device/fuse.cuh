// What is fused with fprop or dgrad, on its way from sums to elements of the result.
#pragma once

#include "conv2d/device/accumulator.cuh"
#include "conv2d/epilogue/fusion.h"

namespace haloconv {

// Elements that a thread completes together: their residuals are on the way at once, and each
// activation's code is there once for all of them.
inline constexpr int kFusedAtOnce = 4;

// An element of the output that a thread may have to complete.
struct OutputElement {
  bool exists;
  int64_t channel;
  int64_t offset;  // in the output, and in the residual
};

template <class T>
__device__ __forceinline__ AccumulatorOf<T> load_or(const void* tensor, int64_t index,
                                                    AccumulatorOf<T> otherwise) {
  return tensor == nullptr ? otherwise : load(static_cast<const T*>(tensor) + index);
}

// Writes activation((sum + bias) * scale + shift + residual) of the elements that exist. What is
// left out counts as a number that changes nothing: not even the sign of a zero.
template <class T, template <class> class Arguments>
__device__ __forceinline__ void store_fused(const Arguments<T>& args,
                                            AccumulatorOf<T> (&values)[kFusedAtOnce],
                                            const OutputElement (&elements)[kFusedAtOnce]) {
  using Acc = AccumulatorOf<T>;
  const Fusion& fusion = args.fusion;
  Acc residuals[kFusedAtOnce];
#pragma unroll
  for (int i = 0; i < kFusedAtOnce; ++i) {
    const void* residual = elements[i].exists ? fusion.residual : nullptr;
    residuals[i] = load_or<T>(residual, elements[i].offset, Acc(-0.0));
  }
#pragma unroll
  for (int i = 0; i < kFusedAtOnce; ++i) {
    if (!elements[i].exists) continue;
    const int64_t channel = elements[i].channel;
    const Acc bias = load_or<T>(args.bias, channel, Acc(-0.0));
    const Acc scale = load_or<T>(fusion.scale, channel, Acc(1));
    const Acc shift = load_or<T>(fusion.shift, channel, Acc(-0.0));
    values[i] = (values[i] + bias) * scale + shift + residuals[i];
  }
  with_activation<Acc>(fusion.activation, [&](auto activation) {
#pragma unroll
    for (Acc& value : values) value = activation(value);
  });
#pragma unroll
  for (int i = 0; i < kFusedAtOnce; ++i) {
    if (elements[i].exists) store(args.destination + elements[i].offset, values[i]);
  }
}

}  // namespace haloconv
