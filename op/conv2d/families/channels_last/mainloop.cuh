// The products of a tile, as stages of operands arrive.
#pragma once

#include "conv2d/device/channel_results.cuh"
#include "conv2d/families/channels_last/operands.h"
#include "conv2d/families/channels_last/scheduler.cuh"
#include "conv2d/families/channels_last/shared_memory.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::channels_last {

// Blocks of 64 pixels that a warpgroup multiplies.
template <Tile kTile>
inline constexpr int kRowBlocks = kTile.pixels / groups_of_tile(kTile) / 64;

// nvcc 12.4 fails with an internal error on an alias without the struct.
template <Tile kTile>
struct SumsOf {
  using Type = float[kRowBlocks<kTile>][kTile.channels / 2];
};
template <Tile kTile>
using Sums = typename SumsOf<kTile>::Type;

// The number of pixel i that a thread has in a tile, of its blocks of 64 from `first_block` on.
__device__ __forceinline__ int32_t pixel_number(int32_t first_pixel, int32_t first_block,
                                                int32_t warp, int32_t lane, int i) {
  return first_pixel + (first_block + i / 2) * 64 + pixel_in_block(warp % 4, lane, i % 2);
}

// One stage's products, left in flight. `staying` is the address of its filter where Memory is
// staying_kernel.cuh's; in SharedMemory the stage holds it.
template <class T, Tile kTile, bool kDgrad, class Memory>
__device__ __forceinline__ void multiply_stage(uint32_t stage, uint32_t staying, int32_t group,
                                               Sums<kTile>& sums) {
  constexpr int kRowBytes = kTile.row_bytes();
  constexpr int kDeep = kOperandBytes / kTile.element_bytes;  // of an instruction
#pragma unroll
  for (int i = 0; i < units_of(kTile); ++i) {
    const uint32_t source =
        stage + i * Memory::kSourceUnit + group * kRowBlocks<kTile> * (64 * kRowBytes);
    const uint32_t filter = Memory::filter_unit(stage, staying, i);
#pragma unroll
    for (int k = 0; k < kTile.depth; k += kDeep) {
      const uint64_t b =
          filter_form(kTile, kDgrad) | operand_address(filter + filter_step(kTile, kDgrad, k));
#pragma unroll
      for (int row = 0; row < kRowBlocks<kTile>; ++row) {
        const uint64_t a = swizzled_form(kRowBytes, kRowBytes * 8) |
                           operand_address(source + row * 64 * kRowBytes + k * kTile.element_bytes);
        wgmma_shared<T, kTile.channels, false, kDgrad>(sums[row], a, b);
      }
    }
  }
}

// Tells the producer that a warp is done with a stage.
__device__ __forceinline__ void release_stage(uint64_t* empty, int32_t lane) {
  if (lane == 0) {
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                               cuda::ptx::space_shared, empty);
  }
}

// A stage that holds results which the copy engine may still read: a warp gives it back when that
// has been done, which it does not wait for while there is something else to do.
class StoredStage {
 public:
  // Of the copies that lane 0 has issued.
  __device__ __forceinline__ void begin(int32_t stage, int32_t lane) {
    if (lane == 0) cuda::ptx::cp_async_bulk_commit_group();
    stage_ = stage;
  }
  __device__ __forceinline__ void release(uint64_t* empty, int32_t lane) {
    if (stage_ < 0) return;
    if (lane == 0) cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    release_stage(&empty[stage_], lane);
    stage_ = -1;
  }

 private:
  int32_t stage_ = -1;
};

struct NothingElse {
  __device__ __forceinline__ void operator()() const {}
};

// A warpgroup's part of a tile over `stages` > 0 stages. The products of a stage are waited for
// when those of the next have been issued; at the first stage, so are the copies of the results of
// the tile before. Calls issued() when all products are on their way.
template <class T, Tile kTile, bool kDgrad, class Memory, class Issued = NothingElse>
__device__ __forceinline__ void multiply(const Memory& shared, RingPosition& ring, int32_t stages,
                                         int32_t group, int32_t lane, int32_t stages_of_ring,
                                         StoredStage& stored, Sums<kTile>& sums,
                                         Issued issued = {}) {
  uint32_t staying = shared.staying_filter;
  int32_t last = -1;
  do {
    mbarrier_wait(&shared.full[ring.stage], ring.parity);
    wgmma_fence();
    multiply_stage<T, kTile, kDgrad, Memory>(shared.stage(ring.stage), staying, group, sums);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0) {
      release_stage(&shared.empty[last], lane);
    } else {
      stored.release(shared.empty, lane);
    }
    last = ring.stage;
    ring.advance(stages_of_ring);
    staying += Memory::kStayingUnit;
  } while (--stages > 0);
  issued();
  wgmma_wait<0>();
  release_stage(&shared.empty[last], lane);
  wgmma_settle(sums);
}

}  // namespace haloconv::sm90::channels_last
