// The warpgroup's matrix instruction whose first operand is in registers, as wgmma()'s is, and
// whose second lies with its columns innermost.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/wgmma_operands.cuh"

namespace haloconv {

// d += a * b, of 64 x 16 and 16 x 64 values of a 16-bit type; d and a as in wgmma().
template <class T>
__device__ __forceinline__ void wgmma_turned(float (&d)[32], const uint4& a, uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
#define HALOCONV_MULTIPLY(TYPES)                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64" TYPES " {" HALOCONV_NAMES_0   \
               ", " HALOCONV_NAMES_1 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n" \
               : HALOCONV_SUMS_32(0)                                               \
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b))
  if constexpr (std::is_same_v<T, __half>) {
    HALOCONV_MULTIPLY("k16.f32.f16.f16");
  } else {
    HALOCONV_MULTIPLY("k16.f32.bf16.bf16");
  }
#undef HALOCONV_MULTIPLY
}

}  // namespace haloconv
