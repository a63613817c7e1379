// Adds partial sums as sum_partials.cuh does, with loads that do not wait for the sums before them,
// however few there are: often each thread has two to five, of which a loop that is unrolled by
// eight loads one after another.
#pragma once

#include "conv2d/device/sum_partials.cuh"

namespace haloconv {

inline constexpr int kPartialsTogether = 8;  // partial sums that a thread has on their way at once

template <int kSlices, class Value>
__device__ __forceinline__ Value sum_together(const Value* at, int64_t step, int32_t count) {
  const int32_t slice = static_cast<int32_t>(threadIdx.x) / (kReduceThreads / kSlices);
  Value sum{};
#pragma unroll 1
  for (int32_t first = slice; first < count; first += kPartialsTogether * kSlices) {
    Value values[kPartialsTogether];
#pragma unroll
    for (int i = 0; i < kPartialsTogether; ++i) {
      const int32_t partial = first + i * kSlices;
      values[i] = partial < count ? at[partial * step] : Value{};
    }
#pragma unroll
    for (int i = 0; i < kPartialsTogether; ++i) add(sum, values[i]);
  }
  add_slices<kSlices>(sum, slice);
  return sum;
}

}  // namespace haloconv
