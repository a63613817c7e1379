// Taps on padding beside the strips: no strip has their products, which are zero, or NaN where a
// weight is an infinity or NaN.
#pragma once

#include <cstdint>

#include "conv2d/sm90/scatter/shared_memory.cuh"

namespace haloconv::sm90::scatter {

// Puts the sums over all source channels and the filter's rows where the epilogue finds them, and
// returns whether one is NaN. By all threads of a block.
__device__ __forceinline__ bool sum_zeros(const Arguments& args, const SharedMemory& shared,
                                          int32_t thread) {
  bool has_nan = false;
  for (int32_t column = thread; column < args.columns; column += kThreads) {
    float sum = 0;
    for (int32_t i = column; i < args.weights_bytes / 16; i += args.columns) {
      const uint4 weights = shared.weights()[i];
      sum = fmaf(0, __uint_as_float(weights.x), sum);
      sum = fmaf(0, __uint_as_float(weights.y), sum);
      sum = fmaf(0, __uint_as_float(weights.z), sum);
      sum = fmaf(0, __uint_as_float(weights.w), sum);
    }
    shared.zeros()[column] = sum;
    has_nan = has_nan || isnan(sum);
  }
  return __syncthreads_or(has_nan) != 0;
}

}  // namespace haloconv::sm90::scatter
