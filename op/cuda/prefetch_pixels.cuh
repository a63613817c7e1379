#pragma once

#include <cuda.h>

#include <cstdint>

namespace haloconv {

// Brings what copy_pixels() of tma.cuh copies to the L2 cache alone.
__device__ __forceinline__ void prefetch_pixels(const CUtensorMap* map, int32_t c, int32_t w,
                                                int32_t h, int32_t n, uint16_t offset_w,
                                                uint16_t offset_h) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%0, {%1, %2, %3, %4}], {%5, %6};" ::"l"(
          map),
      "r"(c), "r"(w), "r"(h), "r"(n), "h"(offset_w), "h"(offset_h)
      : "memory");
}

}  // namespace haloconv
