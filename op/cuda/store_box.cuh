// Copies of a box of a rank-3 tensor from shared to global memory by a tensor map; what of it lies
// outside the tensor is not written. The thread that issued them commits and waits for them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace haloconv {

// The innermost coordinate first.
__device__ __forceinline__ void store_box(uint32_t from, const CUtensorMap* map, int32_t c0,
                                          int32_t c1, int32_t c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          map),
      "r"(from), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

}  // namespace haloconv
