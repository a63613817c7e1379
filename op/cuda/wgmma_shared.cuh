// The matrix instruction of two operands in shared memory, of 16-bit types; what orders it is in
// wgmma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace haloconv::sm90 {

// d += a * b, of 64 x 16 and 16 x kN values, by the operands' descriptors; d as in wgmma(). a lies
// with its 64 rows' neighbours side by side if `kRowsInnermost`, else with those of the depth, and
// so b with its columns'.
template <class T, int kN, bool kRowsInnermost, bool kColumnsInnermost>
__device__ __forceinline__ void wgmma_shared(float (&d)[kN / 2], uint64_t a, uint64_t b) {
  static_assert(kN == 8 || kN == 32 || kN == 64 || kN == 128);
#define HALOCONV_WGMMA(MULTIPLY)                     \
  if constexpr (std::is_same_v<T, __half>) {         \
    MULTIPLY("k16.f32.f16.f16");                     \
  } else {                                           \
    static_assert(std::is_same_v<T, __nv_bfloat16>); \
    MULTIPLY("k16.f32.bf16.bf16");                   \
  }
  if constexpr (kN == 8) {
#define HALOCONV_MULTIPLY(TYPES)                                \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8" TYPES       \
               " {"                                             \
               "%0, %1, %2, %3"                                 \
               "}, %4, %5, 1, 1, 1, %6, %7;\n"                  \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
               : "l"(a), "l"(b), "n"(kRowsInnermost ? 1 : 0), "n"(kColumnsInnermost ? 1 : 0))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 32) {
#define HALOCONV_MULTIPLY(TYPES)                                                           \
  asm volatile("wgmma.mma_async.sync.aligned.m64n32" TYPES                                 \
               " {"                                                                        \
               "%0, %1, %2, %3, %4, %5, %6, %7, "                                          \
               "%8, %9, %10, %11, %12, %13, %14, %15"                                      \
               "}, %16, %17, 1, 1, 1, %18, %19;\n"                                         \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),   \
                 "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), \
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])                        \
               : "l"(a), "l"(b), "n"(kRowsInnermost ? 1 : 0), "n"(kColumnsInnermost ? 1 : 0))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 64) {
#define HALOCONV_MULTIPLY(TYPES)                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64" TYPES                                     \
               " {"                                                                            \
               "%0, %1, %2, %3, %4, %5, %6, %7, "                                              \
               "%8, %9, %10, %11, %12, %13, %14, %15, "                                        \
               "%16, %17, %18, %19, %20, %21, %22, %23, "                                      \
               "%24, %25, %26, %27, %28, %29, %30, %31"                                        \
               "}, %32, %33, 1, 1, 1, %34, %35;\n"                                             \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),       \
                 "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),     \
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), \
                 "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), \
                 "+f"(d[30]), "+f"(d[31])                                                      \
               : "l"(a), "l"(b), "n"(kRowsInnermost ? 1 : 0), "n"(kColumnsInnermost ? 1 : 0))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 128) {
#define HALOCONV_MULTIPLY(TYPES)                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128" TYPES                                    \
               " {"                                                                            \
               "%0, %1, %2, %3, %4, %5, %6, %7, "                                              \
               "%8, %9, %10, %11, %12, %13, %14, %15, "                                        \
               "%16, %17, %18, %19, %20, %21, %22, %23, "                                      \
               "%24, %25, %26, %27, %28, %29, %30, %31, "                                      \
               "%32, %33, %34, %35, %36, %37, %38, %39, "                                      \
               "%40, %41, %42, %43, %44, %45, %46, %47, "                                      \
               "%48, %49, %50, %51, %52, %53, %54, %55, "                                      \
               "%56, %57, %58, %59, %60, %61, %62, %63"                                        \
               "}, %64, %65, 1, 1, 1, %66, %67;\n"                                             \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),       \
                 "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),     \
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), \
                 "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), \
                 "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), \
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
                 "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), \
                 "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
                 "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                            \
               : "l"(a), "l"(b), "n"(kRowsInnermost ? 1 : 0), "n"(kColumnsInnermost ? 1 : 0))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
#undef HALOCONV_WGMMA
}

}  // namespace haloconv::sm90
