// The warpgroup's matrix instruction of 160 columns, whose first operand is in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/wgmma_operands.cuh"

namespace haloconv {

// d += a * b, of 64 x 8 and 8 x 160 values in TF32 (T is float), or 64 x 16 and 16 x 160 of a
// 16-bit type; d and a as in wgmma() of wgmma.cuh.
template <class T>
__device__ __forceinline__ void wgmma_160(float (&d)[80], const uint4& a, uint64_t b) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n160" TYPES " {" HALOCONV_NAMES_0       \
               ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3        \
               ", " HALOCONV_NAMES_4 "}, {%80, %81, %82, %83}, %84, 1, 1, 1" LAST ";\n" \
               : HALOCONV_SUMS_64(0), HALOCONV_SUMS_16(64)                              \
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b))
  if constexpr (std::is_same_v<T, __half>) {
    HALOCONV_MULTIPLY("k16.f32.f16.f16", ", 0");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    HALOCONV_MULTIPLY("k16.f32.bf16.bf16", ", 0");
  } else {
    HALOCONV_MULTIPLY("k8.f32.tf32.tf32", "");
  }
#undef HALOCONV_MULTIPLY
}

}  // namespace haloconv
