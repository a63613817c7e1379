// Copies of a box of a rank-4 tensor from shared to global memory by a tensor map, which leave the
// L2 cache before what is read again; what of the box lies outside the tensor is not written. The
// thread that issued them commits and waits for them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace haloconv {

// The innermost coordinate first.
__device__ __forceinline__ void store_streamed_box(uint32_t from, const CUtensorMap* map,
                                                   int32_t c0, int32_t c1, int32_t c2, int32_t c3) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint"
      " [%0, {%2, %3, %4, %5}], [%1], %6;" ::"l"(map),
      "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

}  // namespace haloconv
