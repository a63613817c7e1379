// Finds the weight of lone_weight.h, and multiplies it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "conv2d/families/first_layers/lone_weight.h"
#include "cuda/mbarrier.cuh"

namespace haloconv::sm90::first_layers {

template <class T>
__device__ __forceinline__ bool is_finite(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return fabsf(value) < INFINITY;
  } else {
    constexpr uint32_t kExponent = std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;
    return (reinterpret_cast<const uint16_t&>(value) & kExponent) != kExponent;
  }
}

// What a block finds in its filter, in shared memory.
struct NotFinite {
  int32_t count;         // of weights that are not finite, or 2 if there are more
  uint32_t tap_columns;  // bits of those that have such weights
  LoneWeight lone;       // if there is one

  __device__ __forceinline__ void clear() { count = 0, tap_columns = 0; }

  // Adds those of a tap and every filter_step'th channel, from the operand.
  template <class T>
  __device__ __forceinline__ void find(const DgradArguments& args, const DgradShape& shape,
                                       const unsigned char* filter, const PositionTap& tap,
                                       int32_t first_k) {
    atomicOr(&tap_columns, tap_bit(tap.v));
#pragma unroll 1
    for (int32_t k = first_k; k < args.k; k += args.filter_step) {
      const T value =
          *reinterpret_cast<const T*>(filter + dgrad_filter_place(args, shape, tap, k, sizeof(T)));
      if (is_finite(value)) continue;
      if (atomicAdd(&count, 1) > 0) return;
      lone = lone_weight(args, shape, tap, k, static_cast<float>(value), sizeof(T));
    }
  }

  // By one thread: puts a one in the lone weight's place.
  template <class T>
  __device__ __forceinline__ void replace(unsigned char* filter) const {
    *reinterpret_cast<T*>(filter + lone.place) = T(copysignf(1.0f, lone.value));
  }
};

template <class T>
__device__ __forceinline__ float load_from_window(uint32_t at) {
  if constexpr (std::is_same_v<T, float>) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
    return value;
  } else {
    uint16_t bits;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
    return static_cast<float>(reinterpret_cast<const T&>(bits));
  }
}

// From a condition around the addition the compiler would make an index, and keep the sums in local
// memory.
__device__ __forceinline__ void add_if(bool condition, float value, float& sum) {
  asm("{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "@p add.f32 %0, %0, %1;\n"
      "}\n"
      : "+f"(sum)
      : "f"(value), "r"(static_cast<int32_t>(condition)));
}

// The lone weight's products with a row of grad_output, for a thread's sums.
template <class T, int kN, int kBlocks>
class LoneProducts {
 public:
  // Reads the row's windows, of which the first is at `ring`.
  __device__ __forceinline__ LoneProducts(const DgradArguments& args, const LoneWeight& weight,
                                          uint32_t windows, const RingPosition& ring,
                                          int32_t first_column)
      : group_(weight.column / 8), is_odd_(weight.column % 2 != 0) {
    const uint32_t row_bytes = args.chunk_channels * sizeof(T);
    const uint32_t thread = threadIdx.x % 128, in_strip = thread / 32 * 16 + thread % 32 / 4;
    const bool is_mine = thread % 4 == weight.column % 8 / 2;
    const int32_t column = first_column + static_cast<int32_t>(in_strip) - weight.v;
    int32_t stage = ring.stage + weight.chunk;
    if (stage >= args.windows) stage -= args.windows;
    const uint32_t place = swizzled_in_window(
        args, windows + stage * args.window_bytes + weight.in_window + in_strip * row_bytes,
        sizeof(T));
#pragma unroll
    for (int i = 0; i < kBlocks * 2; ++i) {
      const int32_t beyond = i / 2 * kBlockColumns + i % 2 * 8;
      const float product = load_from_window<T>(place + beyond * row_bytes) * weight.value;
      // Adding this zero changes nothing, not even the sign of a zero.
      products_[i] = is_mine && args.has_column(column + beyond) ? product : -0.0f;
    }
  }

  __device__ __forceinline__ void add_to(float (&sums)[kBlocks][kN / 2]) const {
#pragma unroll
    for (int j = 0; j < kN / 4; ++j) {
      const bool is_here = group_ == j / 2 && is_odd_ == (j % 2 != 0);
#pragma unroll
      for (int i = 0; i < kBlocks * 2; ++i) {
        add_if(is_here, products_[i], sums[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2]);
      }
    }
  }

 private:
  const uint32_t group_;
  const bool is_odd_;
  float products_[kBlocks * 2];  // of each position
};

}  // namespace haloconv::sm90::first_layers
