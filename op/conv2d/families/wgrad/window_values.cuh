// The values that a lane of the window loader has on their way: some columns of one channel in each
// of the strip's segments, and the cells that they make.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

// kVector: how many neighbouring columns are loaded at once, all of a batch or 1.
template <class T, int kVector>
struct WindowValues;

template <int kVector>
struct WindowValues<float, kVector> {
  static constexpr int kInFlight = kVector > 1 ? 3 : 2;  // batches, as registers allow
  float values[4][kBatchSteps];

  // Of all columns from `at` on; nothing unless `inside`.
  __device__ __forceinline__ void load(int segment, const float* at, bool inside) {
    load_global(at, values[segment], inside);
  }
  // Of one.
  __device__ __forceinline__ void load(int segment, int step, const float* at, bool inside) {
    values[segment][step] = load_global(at, inside);
  }
  __device__ __forceinline__ void cells(int step, uint4 (&terms)[1]) const {
    terms[0] = make_uint4(round_to_tf32(values[0][step]), round_to_tf32(values[1][step]),
                          round_to_tf32(values[2][step]), round_to_tf32(values[3][step]));
  }
};

template <int kVector>
struct WindowValues<PreciseFloat, kVector> : WindowValues<float, kVector> {
  using Base = WindowValues<float, kVector>;
  using Base::values;
  static constexpr int kInFlight = kVector > 1 ? 2 : 1;

  __device__ __forceinline__ void load(int segment, const PreciseFloat* at, bool inside) {
    Base::load(segment, &at->value, inside);
  }
  __device__ __forceinline__ void load(int segment, int step, const PreciseFloat* at, bool inside) {
    Base::load(segment, step, &at->value, inside);
  }
  __device__ __forceinline__ void cells(int step, uint4 (&terms)[2]) const {
    const uint4 whole =
        make_uint4(__float_as_uint(values[0][step]), __float_as_uint(values[1][step]),
                   __float_as_uint(values[2][step]), __float_as_uint(values[3][step]));
    Element<PreciseFloat>::split(whole, terms[0], terms[1]);
  }
};

// 16-bit types, by their bits.
template <class T, int kVector>
  requires(sizeof(T) == 2 && kVector > 1)
struct WindowValues<T, kVector> {
  static constexpr int kInFlight = 2;  // with 3, 96 registers spill, and most plans are slower
  uint32_t pairs[8][kBatchSteps / 2];

  __device__ __forceinline__ void load(int segment, const T* at, bool inside) {
    load_global_bits(at, pairs[segment], inside);
  }
  __device__ __forceinline__ void cells(int step, uint4 (&terms)[1]) const {
    const auto word = [&](int i) {
      return Element<T>::halves(pairs[2 * i][step / 2], pairs[2 * i + 1][step / 2], step % 2 == 1);
    };
    terms[0] = make_uint4(word(0), word(1), word(2), word(3));
  }
};

template <class T>
  requires(sizeof(T) == 2)
struct WindowValues<T, 1> {
  static constexpr int kInFlight = 1;
  uint16_t values[8][kBatchSteps];

  __device__ __forceinline__ void load(int segment, int step, const T* at, bool inside) {
    load_global_bits(at, values[segment][step], inside);
  }
  __device__ __forceinline__ void cells(int step, uint4 (&terms)[1]) const {
    const auto word = [&](int i) {
      return Element<T>::halves(values[2 * i][step], values[2 * i + 1][step], false);
    };
    terms[0] = make_uint4(word(0), word(1), word(2), word(3));
  }
};

}  // namespace haloconv::wgrad
