// Taps beside the source, and so beside the bands: no band has their products, which are zero, or
// NaN if a weight is an infinity or NaN.
#pragma once

#include <cstdint>

#include "conv2d/device/element.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"

namespace haloconv::few_channels {

// Adds zero times a word of weights.
template <class T>
__device__ __forceinline__ float add_zeros(float sum, uint32_t weights) {
#pragma unroll
  for (int i = 0; i < Element<T>::kPerWord; ++i) {
    sum = fmaf(0, Element<T>::value(weights, i), sum);
  }
  return sum;
}

template <class T>
__device__ __forceinline__ float add_zeros(float sum, const uint4& weights) {
  sum = add_zeros<T>(sum, weights.x);
  sum = add_zeros<T>(sum, weights.y);
  sum = add_zeros<T>(sum, weights.z);
  return add_zeros<T>(sum, weights.w);
}

// Puts the sums over all source channels and the filter's rows where the epilogue finds them. All
// threads of a block call it.
template <class T>
__device__ __forceinline__ void sum_zeros(const Arguments& args, const SharedMemory& shared,
                                          int32_t thread) {
  for (int32_t column = thread; column < args.columns; column += kThreads) {
    float sum = 0;
    for (int32_t i = column; i < args.weights_bytes / 16; i += args.columns) {
      sum = add_zeros<T>(sum, shared.weights()[i]);
    }
    shared.zeros()[column] = sum;
  }
  __syncthreads();
}

}  // namespace haloconv::few_channels
