// Sums over the threads of a warp.
#pragma once

namespace haloconv::depthwise {

// The sum of a warp's, in its first lane.
__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(~0u, value, distance);
  }
  return value;
}

}  // namespace haloconv::depthwise
