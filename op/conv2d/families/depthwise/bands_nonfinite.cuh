// What infinities and NaN add to a warp's sums.
//
// A band matrix holds zeros, whose products with them would be NaN. So the instruction multiplies
// zeros in their place, and what they make of the sums is found by counting. Of the taps of an
// output that meet one, further products with the same bands give
//
//   all        how many there are,
//   balance    how many of their products are +infinity, less those that are -infinity.
//
// All products are +infinity where balance = all, -infinity where balance = -all; else their sum is
// NaN. So what is added is
//
//   (all + balance) * infinity - (all - balance) * infinity,     0 * infinity being 0 here.
//
// Where a channel has weights that are not finite each of its outputs meets them, so that no finite
// sum is wanted of it: its pixels are zeros to the instruction, and its bands hold what kind each
// weight is. What such weights add is counted apart from what such pixels add.
//
// Counts are multiples of a unit in float16: exact, and infinite times the greatest number.
#pragma once

#include "conv2d/families/depthwise/band_words.cuh"
#include "cuda/mma_half_sums.cuh"

namespace haloconv::depthwise {

// The signs of weights; of those that are not finite, twice that, and 4 of NaN.
__device__ __forceinline__ float kind_of_weight(float weight) {
  if (isnan(weight)) return 4;
  if (weight == 0) return 0;
  return copysignf(isinf(weight) ? 2.0f : 1.0f, weight);
}

inline constexpr uint32_t k64AsHalves = 0x54005400;  // the unit

// Of a row of a channel's segments.
struct NonfinitePixels {
  uint32_t all[2] = {};
  uint32_t infinite[4];  // 64 with their signs

  // `taps`: the matrix of a band's taps, in ones.
  template <class T>
  static __device__ __forceinline__ NonfinitePixels of(const uint32_t (&pixels)[4],
                                                       const uint32_t (&taps)[2]) {
    NonfinitePixels of;
    uint32_t nonfinite[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      nonfinite[i] = nonfinite_mask<T>(pixels[i]) & k64AsHalves;
      of.infinite[i] = (nonfinite[i] & ~nan_mask<T>(pixels[i])) | (pixels[i] & kSigns);
    }
    multiply_add_half(of.all, nonfinite, taps);
    return of;
  }
};

// Adds what is counted: `all`, and as the balance the product of the two matrices.
__device__ __forceinline__ void add_counted(float (&sums)[4], const uint32_t (&all)[2],
                                            const uint32_t (&pixels)[4],
                                            const uint32_t (&band)[2]) {
  uint32_t up[2] = {all[0], all[1]};
  multiply_add_half(up, pixels, band);
  const __half2 two = __float2half2_rn(2), greatest = __float2half2_rn(65504);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    __half2 of_all, of_up;
    memcpy(&of_all, &all[i], sizeof(of_all));
    memcpy(&of_up, &up[i], sizeof(of_up));
    const __half2 down = __hfma2(of_all, two, __hneg2(of_up));
    // Each product is rounded, to infinity, before they are added.
    const __half2 infinities =
        __hadd2_rn(__hmul2_rn(down, __hneg2(greatest)), __hmul2_rn(of_up, greatest));
    const float2 added = __half22float2(infinities);
    sums[2 * i] += added.x;
    sums[2 * i + 1] += added.y;
  }
}

}  // namespace haloconv::depthwise
