// Which of the grid's clusters a block is in.
#pragma once

#include <cstdint>

namespace haloconv {

// Of a grid with one dimension.
__device__ __forceinline__ int32_t cluster_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int32_t>(index);
}

}  // namespace haloconv
