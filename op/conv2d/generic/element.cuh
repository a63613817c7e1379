// Element types in memory, and the type in which their sums are kept.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace haloconv::generic {

template <class T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};
template <class T>
using AccumulatorOf = typename Accumulator<T>::Type;

template <class T>
__device__ __forceinline__ AccumulatorOf<T> load(const T* address) {
  return static_cast<AccumulatorOf<T>>(__ldg(address));
}

template <class T>
__device__ __forceinline__ void store(T* address, AccumulatorOf<T> value) {
  *address = static_cast<T>(value);
}

// 16 bytes of Acc.
template <class Acc>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(Acc);
  Acc values[kSize];
};

}  // namespace haloconv::generic
