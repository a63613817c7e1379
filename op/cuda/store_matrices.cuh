// From registers to shared memory as matrices: the other way round than load_matrices() of mma.cuh.
#pragma once

#include <cstdint>

namespace haloconv {

// Four matrices of 8 rows of 16 bytes. Lane l gives the address of row l % 8 of matrix l / 8, and
// has word l % 4 of row l / 4 of each.
__device__ __forceinline__ void store_matrices(uint32_t at, const uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

}  // namespace haloconv
