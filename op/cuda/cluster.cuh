// The blocks of a cluster: their ranks, their barrier, reading each other's shared memory.
#pragma once

#include <cstdint>

namespace haloconv {

__device__ __forceinline__ int32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int32_t>(rank);
}

// By all threads of all blocks. What a thread wrote to shared memory before, all see after.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}

// The same barrier without the ordering: threads need not see after it what others wrote before.
__device__ __forceinline__ void cluster_sync_relaxed() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;\n" ::
          : "memory");
}

// The address of another block's shared memory by that of the same place in one's own.
__device__ __forceinline__ uint32_t shared_address_at(uint32_t own, int32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
  return address;
}

// At a barrier of any block. Orders what the thread read before; its writes, only those to its own
// block's shared memory.
__device__ __forceinline__ void arrive_at(uint32_t address) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

// What is at an address of any block, or zeros if not `loads`: without a branch, so that loads
// after it need not wait for this one.
__device__ __forceinline__ float load_shared_or_zero(uint32_t address, bool loads) {
  float value;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %2, 0;\n"
      "mov.f32 %0, 0f00000000;\n"
      "@p ld.shared::cluster.f32 %0, [%1];\n"
      "}\n"
      : "=&f"(value)
      : "r"(address), "r"(static_cast<uint32_t>(loads))
      : "memory");
  return value;
}

__device__ __forceinline__ float4 load_shared_4_or_zeros(uint32_t address, bool loads) {
  float4 value;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "mov.f32 %0, 0f00000000;\n"
      "mov.f32 %1, 0f00000000;\n"
      "mov.f32 %2, 0f00000000;\n"
      "mov.f32 %3, 0f00000000;\n"
      "@p ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "=&f"(value.x), "=&f"(value.y), "=&f"(value.z), "=&f"(value.w)
      : "r"(address), "r"(static_cast<uint32_t>(loads))
      : "memory");
  return value;
}

}  // namespace haloconv
