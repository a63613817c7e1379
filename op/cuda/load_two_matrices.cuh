// Half of what load_matrices() of mma.cuh brings.
#pragma once

#include <cstdint>

namespace haloconv {

// Two matrices of 8 rows of 16 bytes. Lane l, of the first 16, gives the address of row l % 8 of
// matrix l / 8; each lane gets word l % 4 of row l / 4 of both.
__device__ __forceinline__ void load_matrices(uint32_t at, uint32_t (&words)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(at)
               : "memory");
}

}  // namespace haloconv
