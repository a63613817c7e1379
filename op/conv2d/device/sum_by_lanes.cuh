// Adds partial sums by lanes of a warp, so that each has few, whose loads are all on their way at
// once, and blocks need no shared memory: they may then begin beside others that have nearly all.
#pragma once

#include "conv2d/device/sum_partials.cuh"

namespace haloconv {

inline constexpr int kPartialsOfLane = 9;  // 132 are 16 lanes' then, 33 are four lanes'

// How many of a warp's lanes add the sums of one result: a power of two.
inline int32_t lanes_of_sum(int32_t partials) {
  int32_t lanes = 1;
  while (lanes < 16 && lanes * kPartialsOfLane < partials) lanes *= 2;
  return lanes;
}

// The sum of `count` values, `step` apart, for all of its lanes, of which a warp has `lanes`, 32 /
// `lanes` apart. The order of the values depends only on how many there are.
template <class Value>
__device__ __forceinline__ Value sum_by_lanes(const Value* at, int64_t step, int32_t count,
                                              int32_t lanes) {
  const int32_t distance = 32 / lanes;
  int32_t partial = static_cast<int32_t>(threadIdx.x) % 32 / distance;
  at += partial * step;
  step *= lanes;
  Value sum{};
#pragma unroll 1
  while (partial < count) {
    Value values[kPartialsOfLane];
#pragma unroll
    for (int i = 0; i < kPartialsOfLane; ++i, partial += lanes, at += step) {
      values[i] = partial < count ? *at : Value{};
    }
#pragma unroll
    for (int i = 0; i < kPartialsOfLane; ++i) add(sum, values[i]);
  }
#pragma unroll 1
  for (int32_t other = distance; other < 32; other *= 2) {
    if constexpr (sizeof(Value) == sizeof(float)) {
      add(sum, __shfl_xor_sync(~0u, sum, other));
    } else {
      add(sum, float4{__shfl_xor_sync(~0u, sum.x, other), __shfl_xor_sync(~0u, sum.y, other),
                      __shfl_xor_sync(~0u, sum.z, other), __shfl_xor_sync(~0u, sum.w, other)});
    }
  }
  return sum;
}

}  // namespace haloconv
