// The warpgroup's matrix instruction and what orders it, one function an instruction. For their
// meaning see PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace haloconv::sm90 {

// Makes register writes before it visible to the warpgroup's next wgmma.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from reading an accumulator before the wait in front of this.
__device__ __forceinline__ void wgmma_settle(float& accumulator) {
  asm volatile("" : "+f"(accumulator)::"memory");
}

// Where a K-major operand without swizzle lies: 8 columns of 4 k (128 bytes) are contiguous. In
// units of 16 bytes: from one k-half to the other, and from 8 columns to the next 8.
struct OperandLayout {
  uint32_t k_stride, column_stride;
};

// A descriptor's lower word; adding n moves the operand by n units. In a cluster an address has the
// block's rank above its 18 bits.
__device__ __forceinline__ uint32_t operand_start(const void* at, const OperandLayout& layout) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
  return (address >> 4 & 0x3fff) | (layout.k_stride << 16);
}

__device__ __forceinline__ uint64_t operand(uint32_t start, const OperandLayout& layout) {
  return uint64_t{start} | (uint64_t{layout.column_stride} << 32);
}

// d += a * b, of 64 x 8 and 8 x kN values in TF32 (T is float), or 64 x 16 and 16 x kN of a 16-bit
// type T. Thread t of the warpgroup holds, in d, rows 16 * (t / 32) + t % 32 / 4 (d[4i], d[4i + 1])
// and 8 more (d[4i + 2], d[4i + 3]) of columns 8i + 2 * (t % 4) and the next; in a, the same rows
// (x, y) of k = t % 4, or k = 2 * (t % 4) and the next, and (z, w) of k half of all k further.
// Overwrites d unless `accumulate`.
template <class T, int kN>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], const uint4& a, uint64_t b,
                                      bool accumulate) {
  static_assert(kN == 32 || kN == 48 || kN == 56 || kN == 64 || kN == 72 || kN == 104 ||
                kN == 120 || kN == 144);
// By T: the instruction's name for it, and what follows its operands.
#define HALOCONV_WGMMA(MULTIPLY)                           \
  if constexpr (std::is_same_v<T, __half>) {               \
    MULTIPLY("k16.f32.f16.f16", ", 0");                    \
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) { \
    MULTIPLY("k16.f32.bf16.bf16", ", 0");                  \
  } else {                                                 \
    MULTIPLY("k8.f32.tf32.tf32", "");                      \
  }
  if constexpr (kN == 32) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                          \
  asm volatile(                                                                                 \
      "{\n"                                                                                     \
      ".reg .pred accumulates;\n"                                                               \
      "setp.ne.b32 accumulates, %21, 0;\n"                                                      \
      "wgmma.mma_async.sync.aligned.m64n32" TYPES                                               \
      " {"                                                                                      \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                        \
      "%8, %9, %10, %11, %12, %13, %14, %15"                                                    \
      "}, "                                                                                     \
      "{%16, %17, %18, %19}, %20, accumulates, 1, 1" LAST                                       \
      ";\n"                                                                                     \
      "}\n"                                                                                     \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
        "+f"(d[14]), "+f"(d[15])                                                                \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 48) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %29, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n48" TYPES                                                  \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23"                                                     \
      "}, "                                                                                        \
      "{%24, %25, %26, %27}, %28, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23])                                                      \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 56) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %33, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n56" TYPES                                                  \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27"                                                                         \
      "}, "                                                                                        \
      "{%28, %29, %30, %31}, %32, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])  \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 64) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %37, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n64" TYPES                                                  \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27, %28, %29, %30, %31"                                                     \
      "}, "                                                                                        \
      "{%32, %33, %34, %35}, %36, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                                         \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 72) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %41, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n72" TYPES                                                  \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                   \
      "%32, %33, %34, %35"                                                                         \
      "}, "                                                                                        \
      "{%36, %37, %38, %39}, %40, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), \
        "+f"(d[35])                                                                                \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 104) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %57, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n104" TYPES                                                 \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                   \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                                                   \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                                                   \
      "%48, %49, %50, %51"                                                                         \
      "}, "                                                                                        \
      "{%52, %53, %54, %55}, %56, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), \
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51])                                                      \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 120) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %65, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n120" TYPES                                                 \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                   \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                                                   \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                                                   \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                                                   \
      "%56, %57, %58, %59"                                                                         \
      "}, "                                                                                        \
      "{%60, %61, %62, %63}, %64, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), \
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])                                         \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
  if constexpr (kN == 144) {
#define HALOCONV_MULTIPLY(TYPES, LAST)                                                             \
  asm volatile(                                                                                    \
      "{\n"                                                                                        \
      ".reg .pred accumulates;\n"                                                                  \
      "setp.ne.b32 accumulates, %77, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n144" TYPES                                                 \
      " {"                                                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                   \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                   \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                                                   \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                                                   \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                                                   \
      "%56, %57, %58, %59, %60, %61, %62, %63, "                                                   \
      "%64, %65, %66, %67, %68, %69, %70, %71"                                                     \
      "}, "                                                                                        \
      "{%72, %73, %74, %75}, %76, accumulates, 1, 1" LAST                                          \
      ";\n"                                                                                        \
      "}\n"                                                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), \
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), \
        "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), \
        "+f"(d[70]), "+f"(d[71])                                                                   \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
    HALOCONV_WGMMA(HALOCONV_MULTIPLY)
#undef HALOCONV_MULTIPLY
  }
#undef HALOCONV_WGMMA
}

}  // namespace haloconv::sm90
