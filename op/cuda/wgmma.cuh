// The warpgroup's matrix instruction and what orders it, one function an instruction. For their
// meaning see PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/wgmma_operands.cuh"

namespace haloconv {

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

// The same for all accumulators of an array, whose elements may be arrays themselves.
template <class Accumulators, int kCount>
__device__ __forceinline__ void wgmma_settle(Accumulators (&accumulators)[kCount]) {
#pragma unroll
  for (auto& one : accumulators) wgmma_settle(one);
}

// Keeps the compiler from computing the next first operand from these words before the wait in
// front of this. It may put it into the registers of the one before, which the instruction reads
// while it runs: python_tests/operand_registers.py finds such machine code.
__device__ __forceinline__ void wgmma_settle(uint4& words) {
  asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)::"memory");
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
  static_assert(kN == 32 || kN == 40 || kN == 48 || kN == 56 || kN == 64 || kN == 72 || kN == 104 ||
                kN == 120 || kN == 144);
// N, the numbers of the predicate, of a's four words and of b, the accumulators' names, and the
// accumulators. By T: the instruction's name for it, and what follows its operands.
#define HALOCONV_MULTIPLY(N, TYPES, LAST, PREDICATE, A, B, NAMES, ...)         \
  asm volatile(                                                                \
      "{\n"                                                                    \
      ".reg .pred accumulates;\n"                                              \
      "setp.ne.b32 accumulates, " PREDICATE                                    \
      ", 0;\n"                                                                 \
      "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" NAMES "}, {" A "}, " B \
      ", accumulates, 1, 1" LAST                                               \
      ";\n"                                                                    \
      "}\n"                                                                    \
      : __VA_ARGS__                                                            \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(static_cast<int32_t>(accumulate)))
#define HALOCONV_WGMMA(N, ...)                                       \
  if constexpr (kN == N) {                                           \
    if constexpr (std::is_same_v<T, __half>) {                       \
      HALOCONV_MULTIPLY(N, "k16.f32.f16.f16", ", 0", __VA_ARGS__);   \
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {         \
      HALOCONV_MULTIPLY(N, "k16.f32.bf16.bf16", ", 0", __VA_ARGS__); \
    } else {                                                         \
      HALOCONV_MULTIPLY(N, "k8.f32.tf32.tf32", "", __VA_ARGS__);     \
    }                                                                \
  }
  HALOCONV_WGMMA(32, "%21", "%16, %17, %18, %19", "%20", HALOCONV_NAMES_0, HALOCONV_SUMS_16(0))
  HALOCONV_WGMMA(40, "%25", "%20, %21, %22, %23", "%24", HALOCONV_NAMES_0 ", %16, %17, %18, %19",
                 HALOCONV_SUMS_16(0), HALOCONV_SUMS_4(16))
  HALOCONV_WGMMA(48, "%29", "%24, %25, %26, %27", "%28",
                 HALOCONV_NAMES_0 ", %16, %17, %18, %19, %20, %21, %22, %23", HALOCONV_SUMS_16(0),
                 HALOCONV_SUMS_8(16))
  HALOCONV_WGMMA(56, "%33", "%28, %29, %30, %31", "%32",
                 HALOCONV_NAMES_0 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27",
                 HALOCONV_SUMS_16(0), HALOCONV_SUMS_8(16), HALOCONV_SUMS_4(24))
  HALOCONV_WGMMA(64, "%37", "%32, %33, %34, %35", "%36", HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1,
                 HALOCONV_SUMS_32(0))
  HALOCONV_WGMMA(72, "%41", "%36, %37, %38, %39", "%40",
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", %32, %33, %34, %35", HALOCONV_SUMS_32(0),
                 HALOCONV_SUMS_4(32))
  HALOCONV_WGMMA(104, "%57", "%52, %53, %54, %55", "%56",
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2
                                  ", %48, %49, %50, %51",
                 HALOCONV_SUMS_32(0), HALOCONV_SUMS_16(32), HALOCONV_SUMS_4(48))
  HALOCONV_WGMMA(120, "%65", "%60, %61, %62, %63", "%64",
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2
                                  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59",
                 HALOCONV_SUMS_32(0), HALOCONV_SUMS_16(32), HALOCONV_SUMS_8(48),
                 HALOCONV_SUMS_4(56))
  HALOCONV_WGMMA(144, "%77", "%72, %73, %74, %75", "%76",
                 HALOCONV_NAMES_0 ", " HALOCONV_NAMES_1 ", " HALOCONV_NAMES_2 ", " HALOCONV_NAMES_3
                                  ", %64, %65, %66, %67, %68, %69, %70, %71",
                 HALOCONV_SUMS_64(0), HALOCONV_SUMS_8(64))
#undef HALOCONV_WGMMA
#undef HALOCONV_MULTIPLY
}

}  // namespace haloconv
