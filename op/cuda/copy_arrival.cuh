// Barriers that count the end of copies.
#pragma once

#include <cstdint>

namespace haloconv {

// Arrives at the barrier once all copies of this thread have ended. cuda::ptx has this only from
// CUDA 12.9 on.
__device__ __forceinline__ void mbarrier_arrive_after_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.b64 [%0];" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(barrier)))
               : "memory");
}

}  // namespace haloconv
