// A matrix of 8 x 8 16-bit values that a warp holds in registers, transposed.
#pragma once

#include <cstdint>

namespace haloconv {

// Lane l has values 2 * (l % 4) and the next of row l / 4, and gets those of column l / 4.
__device__ __forceinline__ uint32_t transpose_matrix(uint32_t word) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  return transposed;
}

}  // namespace haloconv
