#pragma once

#include <cstdint>

namespace haloconv {

// Asks for bytes of global memory to be brought to the L2 cache: those of them that are whole 16
// bytes, as the copy engine counts. One instruction of one thread, however many there are.
__device__ __forceinline__ void prefetch_bytes(const void* at, int32_t bytes) {
  const auto first = (reinterpret_cast<uint64_t>(at) + 15) & ~uint64_t{15};
  const auto end = (reinterpret_cast<uint64_t>(at) + static_cast<uint32_t>(bytes)) & ~uint64_t{15};
  if (first >= end) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(first),
               "r"(static_cast<uint32_t>(end - first))
               : "memory");
}

}  // namespace haloconv
