#pragma once

#include <cstdint>

namespace haloconv {

// The calling thread's warp in its block: the same number for all threads of a warp, which the
// compiler cannot see where they divide their own.
__device__ __forceinline__ int32_t this_warp() {
  return __shfl_sync(0xffffffff, static_cast<int32_t>(threadIdx.x) / 32, 0);
}

}  // namespace haloconv
