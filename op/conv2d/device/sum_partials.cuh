// Adds partial sums of weight gradients, in an order that depends only on how many they are.
#pragma once

#include <cstdint>

#include "conv2d/device/grid.h"
#include "conv2d/geometry/integers.h"

namespace haloconv {

inline constexpr int kReduceThreads = 256;
// From so many partial sums on, several threads add those of one result.
inline constexpr int kManyPartials = 16;
inline constexpr int kManySlices = 8;

__device__ __forceinline__ void add(float& sum, float value) { sum += value; }
__device__ __forceinline__ void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

// Adds in order what the threads of a lane have added, and leaves the result in `sum` of each. This
// thread is number `slice` of its lane's.
template <int kSlices, class Value>
__device__ __forceinline__ void add_slices(Value& sum, int32_t slice) {
  if constexpr (kSlices > 1) {
    constexpr int kLanes = kReduceThreads / kSlices;
    __shared__ Value sums[kSlices][kLanes];
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kLanes;
    sums[slice][lane] = sum;
    __syncthreads();
    sum = sums[0][lane];
#pragma unroll
    for (int i = 1; i < kSlices; ++i) add(sum, sums[i][lane]);
  }
}

// The sum of `count` values, `step` apart, for each of a block's lanes. With kSlices > 1, that many
// threads of a lane each add every kSlices'th value, and then their sums are added.
template <int kSlices, class Value>
__device__ __forceinline__ Value sum_partials(const Value* at, int64_t step, int32_t count) {
  const int32_t slice = static_cast<int32_t>(threadIdx.x) / (kReduceThreads / kSlices);
  Value sum{};
#pragma unroll 8
  for (int32_t i = slice; i < count; i += kSlices) add(sum, at[i * step]);
  add_slices<kSlices>(sum, slice);
  return sum;
}

// The grid of a kernel that adds partial sums, four of the filter's gradient to a lane of the first
// blocks, one of the bias's gradient to a lane of those behind them.
struct ReductionGrid {
  int32_t filter_blocks;
  unsigned blocks;
};

template <int kSlices>
ReductionGrid reduction_grid(int64_t filter_floats, int64_t bias_floats) {
  constexpr int64_t kLanes = kReduceThreads / kSlices;
  const int64_t filter_blocks = ceil_div(filter_floats / 4, kLanes);
  return {static_cast<int32_t>(filter_blocks),
          grid_blocks(filter_blocks + ceil_div(bias_floats, kLanes))};
}

// Calls body.template operator()<kSlices>() with as many slices as so many partial sums are worth.
template <class Body>
void with_slices(int32_t partials, Body body) {
  if (partials < kManyPartials) {
    body.template operator()<1>();
  } else {
    body.template operator()<kManySlices>();
  }
}

}  // namespace haloconv
