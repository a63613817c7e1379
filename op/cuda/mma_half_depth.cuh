// The warp's matrix instruction on 16-bit types, half as deep as that of mma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace haloconv {

// d += a * b, as multiply_add() does, but 16 bytes deep: of a the words 0 and 1, of b the word 0.
template <class T>
__device__ __forceinline__ void multiply_add_half_depth(float (&d)[4], uint32_t a_0, uint32_t a_1,
                                                        uint32_t b) {
#define HALOCONV_MMA(SHAPE_AND_TYPES)                                   \
  asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                      \
               " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])         \
               : "r"(a_0), "r"(a_1), "r"(b))
  if constexpr (std::is_same_v<T, __half>) {
    HALOCONV_MMA("m16n8k8.row.col.f32.f16.f16.f32");
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>);
    HALOCONV_MMA("m16n8k8.row.col.f32.bf16.bf16.f32");
  }
#undef HALOCONV_MMA
}

}  // namespace haloconv
