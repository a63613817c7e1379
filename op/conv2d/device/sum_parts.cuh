// Partial sums of weight gradients, added in an order that only their number fixes.
#pragma once

#include <cstdint>

namespace haloconv::sm90 {

inline constexpr int kReduceThreads = 256;
inline constexpr int kManyParts = 16;  // from so many on, several threads add those of one result
inline constexpr int kManySlices = 8;

__device__ __forceinline__ void add(float& sum, float value) { sum += value; }
__device__ __forceinline__ void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

// The sum of `parts` values, `step` apart, for each of a block's lanes. With slices of threads each
// adds every so many'th, and their sums follow in order.
template <int kSlices, class Value>
__device__ __forceinline__ Value sum_parts(const Value* at, int64_t step, int32_t parts) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int32_t slice = static_cast<int32_t>(threadIdx.x) / kLanes;
  Value sum{};
#pragma unroll 8
  for (int32_t part = slice; part < parts; part += kSlices) add(sum, at[part * step]);
  if constexpr (kSlices > 1) {
    __shared__ Value sums[kSlices][kLanes];
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
    sums[slice][lane] = sum;
    __syncthreads();
    sum = sums[0][lane];
#pragma unroll
    for (int i = 1; i < kSlices; ++i) add(sum, sums[i][lane]);
  }
  return sum;
}

}  // namespace haloconv::sm90
