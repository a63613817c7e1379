// Barriers in shared memory: who waits sleeps until the others have arrived.
#pragma once

#include <cuda/ptx>

#include <cstdint>

namespace haloconv {

// The loop is inside the assembly: to the compiler a loop on a thread's own predicate diverges, and
// around a divergent path it runs matrix instructions one at a time.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra.uni again;\n"
      "}\n" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))),
      "r"(parity)
      : "memory");
}

// The same, seeing also what other blocks of the cluster wrote before they arrived.
__device__ __forceinline__ void mbarrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra.uni again;\n"
      "}\n" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))),
      "r"(parity)
      : "memory");
}

// At a barrier of any block of the cluster; what the thread's warp wrote before is seen by those
// who wait there.
__device__ __forceinline__ void mbarrier_arrive_at(uint32_t cluster_address) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_address)
               : "memory");
}

// A position in a ring of stages, and the parity of its round.
struct RingPosition {
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int32_t stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace haloconv
