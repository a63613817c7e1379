// The warp's matrix instruction, on every chip since compute capability 8.0, and the loads of its
// operands. For what each thread holds see PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace haloconv {

// HALOCONV_MMA(shape and types) of a type's instruction.
#define HALOCONV_MMA_OF_TYPE(T)                            \
  if constexpr (std::is_same_v<T, __half>) {               \
    HALOCONV_MMA("m16n8k16.row.col.f32.f16.f16.f32");      \
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) { \
    HALOCONV_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");    \
  } else {                                                 \
    static_assert(std::is_same_v<T, float>);               \
    HALOCONV_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");     \
  }

// d += a * b: 16 rows, 8 columns, and 32 bytes deep, which are 16 values of a 16-bit type or, where
// T is float, 8 of TF32. Thread t holds, in d, columns 2 * (t % 4) and the next, of row t / 4
// (d[0], d[1]) and row 8 + t / 4 (d[2], d[3]); in a, word t % 4 of the first 16 bytes of these rows
// (a[0], a[1]) and of the second (a[2], a[3]); in b, the same words of column t / 4 (b[0], b[1]).
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
#define HALOCONV_MMA(SHAPE_AND_TYPES)                                               \
  asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                  \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  HALOCONV_MMA_OF_TYPE(T);
#undef HALOCONV_MMA
}

// d = a * b + c.
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2], const float (&c)[4]) {
#define HALOCONV_MMA(SHAPE_AND_TYPES)                                                         \
  asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                            \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"       \
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), \
                 "f"(c[1]), "f"(c[2]), "f"(c[3]))
  HALOCONV_MMA_OF_TYPE(T);
#undef HALOCONV_MMA
}
#undef HALOCONV_MMA_OF_TYPE

// d += a * b of several blocks of 8 columns. Of each two blocks b has what one load_matrices()
// brings: the words of the first block's columns, then of the second's.
template <class T, int kBlocks>
__device__ __forceinline__ void multiply_add(float (&d)[kBlocks][4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[kBlocks / 2][4]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const uint32_t words[2] = {b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]};
    multiply_add<T>(d[i], a, words);
  }
}

// Four matrices of 8 rows of 16 bytes. Lane l gives the address of row l % 8 of matrix l / 8, and
// gets word l % 4 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(uint32_t at, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

// The same of 16-bit values, transposed: lane l gets, of each matrix, column l / 4 of rows
// 2 * (l % 4) and the next.
__device__ __forceinline__ void load_matrices_transposed(uint32_t at, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

}  // namespace haloconv
