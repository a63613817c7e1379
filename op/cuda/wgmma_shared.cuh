// The matrix instruction of two operands in shared memory; what orders it is in wgmma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/wgmma_operands.cuh"

namespace haloconv {

// d += a * b, of 64 x 16 and 16 x kN values, by the operands' descriptors; d as in wgmma(). a lies
// with its 64 rows' neighbours side by side if `kRowsInnermost`, else with those of the depth, and
// so b with its columns'. Of float, in TF32: 64 x 8 and 8 x kN, the depth innermost.
template <class T, int kN, bool kRowsInnermost, bool kColumnsInnermost>
__device__ __forceinline__ void wgmma_shared(float (&d)[kN / 2], uint64_t a, uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> ||
                (std::is_same_v<T, float> && !kRowsInnermost && !kColumnsInnermost));
  static_assert(kN == 8 || kN == 16 || kN == 32 || kN == 48 || kN == 64 || kN == 80 || kN == 96 ||
                kN == 128 || kN == 160 || kN == 192 || kN == 256);
// N, the accumulators' names, the numbers of a, b and the two flags, and the accumulators.
#define HALOCONV_MULTIPLY(N, TYPES, NAMES, A, B, ROWS, COLUMNS, ...)                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" NAMES "}, " A ", " B \
               ", 1, 1, 1, " ROWS ", " COLUMNS ";\n"                                  \
               : __VA_ARGS__                                                          \
               : "l"(a), "l"(b), "n"(kRowsInnermost ? 1 : 0), "n"(kColumnsInnermost ? 1 : 0))
// Of TF32, which has no flags.
#define HALOCONV_MULTIPLY_TF32(N, NAMES, A, B, ROWS, COLUMNS, ...)                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES "}, " A ", " B \
               ", 1, 1, 1;\n"                                                                   \
               : __VA_ARGS__                                                                    \
               : "l"(a), "l"(b))
#define HALOCONV_WGMMA(N, ...)                                \
  if constexpr (kN == N) {                                    \
    if constexpr (std::is_same_v<T, float>) {                 \
      HALOCONV_MULTIPLY_TF32(N, __VA_ARGS__);                 \
    } else if constexpr (std::is_same_v<T, __half>) {         \
      HALOCONV_MULTIPLY(N, "k16.f32.f16.f16", __VA_ARGS__);   \
    } else {                                                  \
      HALOCONV_MULTIPLY(N, "k16.f32.bf16.bf16", __VA_ARGS__); \
    }                                                         \
  }
  HALOCONV_WGMMA(8, "%0, %1, %2, %3", "%4", "%5", "%6", "%7", HALOCONV_SUMS_4(0))
  HALOCONV_WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7", "%8", "%9", "%10", "%11", HALOCONV_SUMS_8(0))
  HALOCONV_WGMMA(32, HALOCONV_NAMES_0, "%16", "%17", "%18", "%19", HALOCONV_SUMS_16(0))
  HALOCONV_WGMMA(48,
                 HALOCONV_NAMES_0
                 ", "
                 "%16, %17, %18, %19, %20, %21, %22, %23",
                 "%24", "%25", "%26", "%27", HALOCONV_SUMS_16(0), HALOCONV_SUMS_8(16))
  HALOCONV_WGMMA(64, HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1, "%32", "%33", "%34", "%35",
                 HALOCONV_SUMS_32(0))
  HALOCONV_WGMMA(80,
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1
                                  ", "
                                  "%32, %33, %34, %35, %36, %37, %38, %39",
                 "%40", "%41", "%42", "%43", HALOCONV_SUMS_32(0), HALOCONV_SUMS_8(32))
  HALOCONV_WGMMA(96, HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2, "%48", "%49",
                 "%50", "%51", HALOCONV_SUMS_32(0), HALOCONV_SUMS_16(32))
  HALOCONV_WGMMA(128,
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3,
                 "%64", "%65", "%66", "%67", HALOCONV_SUMS_64(0))
  HALOCONV_WGMMA(160,
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3
                                  ", " HALOCONV_NAMES_4,
                 "%80", "%81", "%82", "%83", HALOCONV_SUMS_64(0), HALOCONV_SUMS_16(64))
  HALOCONV_WGMMA(192,
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3
                                  ", " HALOCONV_NAMES_4 ", " HALOCONV_NAMES_5,
                 "%96", "%97", "%98", "%99", HALOCONV_SUMS_64(0), HALOCONV_SUMS_32(64))
  HALOCONV_WGMMA(256,
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3
                                  ", " HALOCONV_NAMES_4 ", " HALOCONV_NAMES_5 ", " HALOCONV_NAMES_6
                                  ", " HALOCONV_NAMES_7,
                 "%128", "%129", "%130", "%131", HALOCONV_SUMS_64(0), HALOCONV_SUMS_64(64))
#undef HALOCONV_WGMMA
#undef HALOCONV_MULTIPLY_TF32
#undef HALOCONV_MULTIPLY
}

}  // namespace haloconv
