// Copies of the bulk copy engine (TMA) from global to shared memory by a tensor map; each reports
// its bytes to a barrier. One thread issues a copy. Multicast copies write the same place of each
// block of the cluster that `blocks` names by a bit, and report to the same barrier of each.
//
// Copies to global memory report to nothing: the thread that issued them commits and waits for them
// (cuda::ptx::cp_async_bulk_wait_group_read).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace haloconv {

// A shared-memory address as the instructions take it.
__device__ __forceinline__ uint32_t shared_address_of(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box of a rank-2 tensor whose first element is (c0, c1), the innermost coordinate first.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                         int32_t c0, int32_t c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1)
      : "memory");
}

// The same of a rank-3 tensor.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                         int32_t c0, int32_t c1, int32_t c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

// The same of a rank-4 tensor.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                         int32_t c0, int32_t c1, int32_t c2, int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

__device__ __forceinline__ void multicast_box(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                              uint16_t blocks, int32_t c0, int32_t c1, int32_t c2,
                                              int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

// Brings a box of a rank-4 tensor to the L2 cache alone.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int32_t c0, int32_t c1,
                                             int32_t c2, int32_t c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// A box of a rank-4 tensor from shared memory; what of it lies outside the tensor is not written.
__device__ __forceinline__ void store_box(uint32_t from, const CUtensorMap* map, int32_t c0,
                                          int32_t c1, int32_t c2, int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
          "l"(map),
      "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

// A column of pixels of a (channels, w, h, images) tensor in im2col mode: the first base pixel is
// (w, h, n), to which each tap's offset (offset_w, offset_h) is added.
__device__ __forceinline__ void copy_pixels(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                            int32_t c, int32_t w, int32_t h, int32_t n,
                                            uint16_t offset_w, uint16_t offset_h) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"(offset_w), "h"(offset_h)
      : "memory");
}

}  // namespace haloconv
