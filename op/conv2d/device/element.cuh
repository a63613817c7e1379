// The element types of the Hopper kernels: how values are loaded, made the operands of the matrix
// instruction, and stored.
//
// A cell of a window, and a thread's share of a step's other operand, are 16 bytes whatever the
// type: of 16-bit types they hold twice as many values.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "conv2d/device/precise_float.h"
#include "conv2d/device/round.cuh"
#include "conv2d/device/vector_access.cuh"

namespace haloconv {

template <class T>
struct Element;

// Rounded to TF32.
template <>
struct Element<float> {
  static constexpr int kTerms = 1;    // terms that a value is split into
  static constexpr int kPerWord = 1;  // values in 32 bits of an operand
  static constexpr int kPerCell = 4;

  // kVector neighbouring pixels of a channel.
  template <int kVector>
  struct Pixels {
    float values[kVector];
  };

  template <bool kStreams, int kVector>
  static __device__ __forceinline__ void load(const float* at, Pixels<kVector>& pixels,
                                              bool inside) {
    if constexpr (kStreams) {
      stream_global(at, pixels.values, inside);
    } else {
      load_global(at, pixels.values, inside);
    }
  }

  // A word of a pixel's cells, one for each term, whose channels' pixels are given. Which pixel:
  // the last but `index` if `swaps`, else the first but `index`.
  template <int kVector>
  static __device__ __forceinline__ void words(const Pixels<kVector>* channels, int word, int index,
                                               bool swaps, uint32_t (&terms)[kTerms]) {
    const auto& v = channels[word].values;
    terms[0] = round_to_tf32(swaps ? v[kVector - 1 - index] : v[index]);
  }

  static __device__ __forceinline__ float value_of(const Pixels<1>& pixel) {
    return pixel.values[0];
  }
  static __device__ __forceinline__ float load(const float* at, bool inside) {
    return load_global(at, inside);
  }
  static __device__ __forceinline__ uint32_t bits_of_weight(float weight) {
    return round_to_tf32(weight);
  }
  // What is multiplied: of a pixel, and of an operand's word.
  static __device__ __forceinline__ float operand(float pixel) {
    return __uint_as_float(round_to_tf32(pixel));
  }
  static __device__ __forceinline__ float value(uint32_t word, int) {
    return __uint_as_float(word);
  }

  template <int kVector>
  static __device__ __forceinline__ void store(float* at, const float (&v)[kVector], bool inside) {
    store_global(at, v, inside);
  }
  static __device__ __forceinline__ float to_float(float value) { return value; }
};

// The matrix instruction takes it as two terms of TF32, and three of their four products: what is
// left out is 2^-22 of the product at most.
template <>
struct Element<PreciseFloat> : Element<float> {
  static constexpr int kTerms = 2;

  template <bool kStreams, int kVector>
  static __device__ __forceinline__ void load(const PreciseFloat* at, Pixels<kVector>& pixels,
                                              bool inside) {
    Element<float>::load<kStreams>(&at->value, pixels, inside);
  }

  template <int kVector>
  static __device__ __forceinline__ void words(const Pixels<kVector>* channels, int word, int index,
                                               bool swaps, uint32_t (&terms)[kTerms]) {
    const auto& v = channels[word].values;
    split(swaps ? v[kVector - 1 - index] : v[index], terms[0], terms[1]);
  }

  static __device__ __forceinline__ void split(const uint4& values, uint4& high, uint4& low) {
    split(__uint_as_float(values.x), high.x, low.x);
    split(__uint_as_float(values.y), high.y, low.y);
    split(__uint_as_float(values.z), high.z, low.z);
    split(__uint_as_float(values.w), high.w, low.w);
  }
  // The high part, rounded, is finite, so that no product of an infinity's terms with a finite
  // number is NaN; the low part is all that is left. Of its 12 bits the tensor core reads 11.
  static __device__ __forceinline__ void split(float value, uint32_t& high, uint32_t& low) {
    constexpr float kMost = 0x1.ffcp127;  // of TF32
    const auto rounded = __uint_as_float((__float_as_uint(value) + 0x1000) & 0xffffe000);
    const float finite = fminf(fmaxf(rounded, -kMost), kMost);
    high = __float_as_uint(finite);
    low = __float_as_uint(value - finite);
  }

  static __device__ __forceinline__ float load(const PreciseFloat* at, bool inside) {
    return load_global(&at->value, inside);
  }
  static __device__ __forceinline__ uint32_t bits_of_weight(PreciseFloat weight) {
    return __float_as_uint(weight.value);
  }
  static __device__ __forceinline__ float operand(float pixel) { return pixel; }

  template <int kVector>
  static __device__ __forceinline__ void store(PreciseFloat* at, const float (&v)[kVector],
                                               bool inside) {
    store_global(&at->value, v, inside);
  }
  static __device__ __forceinline__ float to_float(PreciseFloat value) { return value.value; }
};

// What the 16-bit types have in common.
template <class T>
struct Element16 {
  static constexpr int kTerms = 1;
  static constexpr int kPerWord = 2;
  static constexpr int kPerCell = 8;

  // Their bits.
  template <int kVector>
  struct Pixels {
    std::conditional_t<kVector == 1, uint16_t, uint32_t> bits;
  };

  template <bool kStreams, int kVector>
  static __device__ __forceinline__ void load(const T* at, Pixels<kVector>& pixels, bool inside) {
    if constexpr (kStreams) {
      stream_global_bits(at, pixels.bits, inside);
    } else {
      load_global_bits(at, pixels.bits, inside);
    }
  }

  template <int kVector>
  static __device__ __forceinline__ void words(const Pixels<kVector>* channels, int word, int index,
                                               bool swaps, uint32_t (&terms)[kTerms]) {
    terms[0] = halves(channels[2 * word].bits, channels[2 * word + 1].bits,
                      kVector == 2 && (index == 1) != swaps);
  }

  static __device__ __forceinline__ float value_of(const Pixels<1>& pixel) {
    return to_float(pixel.bits);
  }
  static __device__ __forceinline__ float load(const T* at, bool inside) {
    Pixels<1> pixel;
    load<false>(at, pixel, inside);
    return value_of(pixel);
  }
  static __device__ __forceinline__ uint32_t bits_of_weight(T weight) {
    return reinterpret_cast<const uint16_t&>(weight);
  }
  static __device__ __forceinline__ float operand(float pixel) { return pixel; }
  static __device__ __forceinline__ float value(uint32_t word, int index) {
    return to_float(static_cast<uint16_t>(word >> 16 * index));
  }
  // The lower or upper halves of two words.
  static __device__ __forceinline__ uint32_t halves(uint32_t first, uint32_t second, bool upper) {
    return __byte_perm(first, second, upper ? 0x7632 : 0x5410);
  }
  static __device__ __forceinline__ float to_float(T value) { return static_cast<float>(value); }

  // A word of two values.
  static __device__ __forceinline__ uint32_t pair(float first, float second) {
    if constexpr (std::is_same_v<T, __half>) {
      const __half2 both = __floats2half2_rn(first, second);
      return reinterpret_cast<const uint32_t&>(both);
    } else {
      const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
      return reinterpret_cast<const uint32_t&>(both);
    }
  }

  template <int kVector>
  static __device__ __forceinline__ void store(T* at, const float (&v)[kVector], bool inside) {
    if constexpr (kVector == 1) {
      const T value(v[0]);
      store_global_bits(at, reinterpret_cast<const uint16_t&>(value), inside);
    } else {
      uint32_t words[kVector / 2];
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) words[i] = pair(v[2 * i], v[2 * i + 1]);
      store_global_bits(at, words, inside);
    }
  }

 private:
  static __device__ __forceinline__ float to_float(uint16_t bits) {
    if constexpr (std::is_same_v<T, __half>) {
      return __half2float(__ushort_as_half(bits));
    } else {
      return __bfloat162float(__ushort_as_bfloat16(bits));
    }
  }
};

template <>
struct Element<__half> : Element16<__half> {};
template <>
struct Element<__nv_bfloat16> : Element16<__nv_bfloat16> {};

}  // namespace haloconv
