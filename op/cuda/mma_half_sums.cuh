// The warp's matrix instruction with sums in float16, which take half as many registers.
#pragma once

#include <cstdint>

namespace haloconv {

// d += a * b: all in float16, otherwise as multiply_add() of cuda/mma.cuh. Of a row's two columns
// that a thread has, d holds both in a word: of row t / 4, and of row 8 + t / 4.
__device__ __forceinline__ void multiply_add_half(uint32_t (&d)[2], const uint32_t (&a)[4],
                                                  const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
      "{%0, %1};\n"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace haloconv
