// What infinities and NaN make of outputs.
//
// A band matrix holds zeros, whose products with them would be NaN. So planes get finite values in
// their place (finite_words()), and where a block has met some it goes down such rows once more.
// This time it multiplies and adds not values but codes of them:
//
//   positive 2,    negative 2^9,    zero or NaN 2^25.
//
// If one of two values is not finite, the product of their codes says what their product is:
// +infinity 4 or 4 * 2^16, -infinity 4 * 2^8, NaN 4 * 2^24 or more. Only such products are added.
// An output has at most 49, so the bytes of a fourth of their sum say whether there is any of each
// kind.
//
// Codes are exact in bfloat16, and so are sums below 2^24 in float32. If weights are not finite,
// all values have codes, and those of values that are not finite get a mark, their sign.
//
// Infinite weights need no care as long as the pixels are finite: they stand in band matrices where
// taps are, and meet nothing else.
#pragma once

#include "conv2d/families/depthwise/band_words.cuh"

namespace haloconv::depthwise {

// Infinities and NaN become 1 to 2 with their signs. An infinite weight makes of these what it
// makes of infinities.
template <class T>
__device__ __forceinline__ uint32_t finite_words(uint32_t word) {
  constexpr uint32_t kHighestOfExponents = 0x40004000;
  return word & ~(nonfinite_mask<T>(word) & kHighestOfExponents);
}

// The exponents of codes, in bfloat16: of all, and what negative ones, zeros and NaN have besides.
inline constexpr uint32_t kPositiveCodes = 0x40004000, kNegativeCodes = 0x04000400;
inline constexpr uint32_t kNanCodes = 0x0c000c00;

// The codes of two values, with their marks.
template <class T>
__device__ __forceinline__ uint32_t marked_codes_of(uint32_t word) {
  const uint32_t has_sign = mask_of_signs(at_least<1>(word) & ~at_least<kInfinity<T> + 1>(word));
  const uint32_t codes =
      kPositiveCodes | (mask_of_signs(word) & kNegativeCodes) | (~has_sign & kNanCodes);
  return codes | (at_least<kInfinity<T>>(word) & kSigns);
}

// The codes of those that are not finite, without marks, and zeros in place of the others.
template <class T>
__device__ __forceinline__ uint32_t nonfinite_codes_of(uint32_t word) {
  const uint32_t nan = mask_of_signs(at_least<kInfinity<T> + 1>(word));
  const uint32_t codes =
      kPositiveCodes | (mask_of_signs(word) & kNegativeCodes) | (nan & kNanCodes);
  return codes & nonfinite_mask<T>(word);
}

// Those with a mark or without, and zeros in place of the others.
__device__ __forceinline__ uint32_t marked_codes(uint32_t codes) {
  return codes & mask_of_signs(codes) & kMagnitudes;
}
__device__ __forceinline__ uint32_t other_codes(uint32_t codes) {
  return codes & ~mask_of_signs(codes);
}

// What two sums of products' codes say: infinities, NaN, or zeros if there are no products.
template <class T>
__device__ __forceinline__ uint32_t values_of_codes(float first, float second) {
  // The highest bit of each byte says whether that of the sum is more than zero. Those of NaN all
  // are.
  const auto bytes = [](float sum) {
    constexpr int32_t kOfNan = 4 * ((1 << 22) + 0x10101);
    const float bits = fminf(sum, kOfNan) + (1 << 25);  // the lowest are those of a fourth
    return __float_as_uint(bits) + 0x7f7f7f;
  };
  const uint32_t a = bytes(first), b = bytes(second);
  const uint32_t positive = masks_of_bytes<0>(a, b) | masks_of_bytes<2>(a, b);
  const uint32_t negative = masks_of_bytes<1>(a, b);
  constexpr uint32_t kInfinities = kInfinity<T> * 0x10001;
  return sums_of_words<T>(positive & kInfinities, negative & (kInfinities | kSigns));
}

}  // namespace haloconv::depthwise
