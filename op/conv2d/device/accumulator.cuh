// Element types in memory, and the type in which their sums are kept.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace haloconv {

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
// By their bits: __ldg of these types is assembly that the compiler takes for arithmetic, and moves
// to before the condition under which the address is one.
__device__ __forceinline__ float load(const __half* address) {
  return __half2float(__ushort_as_half(__ldg(reinterpret_cast<const unsigned short*>(address))));
}
__device__ __forceinline__ float load(const __nv_bfloat16* address) {
  return __bfloat162float(
      __ushort_as_bfloat16(__ldg(reinterpret_cast<const unsigned short*>(address))));
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

}  // namespace haloconv
