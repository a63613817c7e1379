// Stores to the shared memory of another block of the cluster that report their bytes to a barrier
// there, so that no fence orders them.
#pragma once

#include <cstdint>

namespace haloconv {

// Both addresses are of the same block, as shared_address_at() of cluster.cuh gives them.
__device__ __forceinline__ void store_async(uint32_t at, const float (&v)[4], uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
      " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}

}  // namespace haloconv
