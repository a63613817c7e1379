// The warpgroup's matrix instruction in TF32 of many columns, whose first operand is in registers.
#pragma once

#include <cstdint>

#include "cuda/wgmma_operands.cuh"

namespace haloconv {

// d += a * b, of 64 x 8 and 8 x kN values; d and a as in wgmma() of wgmma.cuh, b with its depth
// innermost.
template <int kN>
__device__ __forceinline__ void wgmma_registers(float (&d)[kN / 2], const uint4& a, uint64_t b) {
  static_assert(kN == 64 || kN == 128 || kN == 192 || kN == 256);
// N, the accumulators' names, the numbers of a's four words and of b, and the accumulators.
#define HALOCONV_MULTIPLY(N, NAMES, A, B, ...)                                              \
  if constexpr (kN == N) {                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES "}, {" A \
                 "}, " B ", 1, 1, 1;\n"                                                     \
                 : __VA_ARGS__                                                              \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                         \
  }
  HALOCONV_MULTIPLY(64, HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1, "%32, %33, %34, %35", "%36",
                    HALOCONV_SUMS_32(0))
  HALOCONV_MULTIPLY(
      128, HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3,
      "%64, %65, %66, %67", "%68", HALOCONV_SUMS_64(0))
  HALOCONV_MULTIPLY(192,
                    HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2
                                     ", " HALOCONV_NAMES_3 ", " HALOCONV_NAMES_4
                                     ", " HALOCONV_NAMES_5,
                    "%96, %97, %98, %99", "%100", HALOCONV_SUMS_64(0), HALOCONV_SUMS_32(64))
  HALOCONV_MULTIPLY(256,
                    HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2
                                     ", " HALOCONV_NAMES_3 ", " HALOCONV_NAMES_4
                                     ", " HALOCONV_NAMES_5 ", " HALOCONV_NAMES_6
                                     ", " HALOCONV_NAMES_7,
                    "%128, %129, %130, %131", "%132", HALOCONV_SUMS_64(0), HALOCONV_SUMS_64(64))
#undef HALOCONV_MULTIPLY
}

}  // namespace haloconv
