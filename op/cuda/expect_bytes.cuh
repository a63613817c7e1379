// What a barrier in shared memory is told before copies by the copy engine.
#pragma once

#include <cuda/ptx>

#include <cstdint>

namespace haloconv {

// Arrives at the barrier, which then also waits until so many bytes have been copied.
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                       cuda::ptx::space_shared, barrier, bytes);
}

}  // namespace haloconv
