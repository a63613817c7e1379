// Barriers in shared memory that every chip since compute capability 8.0 has: threads arrive at
// them, and others, which need not arrive, wait until so many have.
#pragma once

#include <cstdint>

namespace haloconv {

// A phase ends when `count` threads have arrived. By one thread, before any other uses it.
__device__ __forceinline__ void init_shared_barrier(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// What the thread wrote and read before has happened to those who see that the phase has ended.
__device__ __forceinline__ void arrive_at_shared_barrier(uint32_t barrier) {
  asm volatile(
      "{\n"
      ".reg .b64 state;\n"
      "mbarrier.arrive.shared.b64 state, [%0];\n"
      "}\n" ::"r"(barrier)
      : "memory");
}

// Until the phase of that parity has ended. The loop is inside the assembly, as in mbarrier.cuh.
__device__ __forceinline__ void wait_at_shared_barrier(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
#define HALOCONV_WAIT "mbarrier.try_wait.parity.shared::cta.b64"
#else
#define HALOCONV_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n" HALOCONV_WAIT
      " done, [%0], %1;\n"
      "@!done bra.uni again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
#undef HALOCONV_WAIT
}

}  // namespace haloconv
