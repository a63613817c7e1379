// Which tiles a block computes, and in which order.
//
// Tiles that are computed at the same time have neighbouring numbers: first come the tiles of
// output channels that read one window, so that they share it in the L2 cache, then neighbours
// along the row. Multiprocessors differ in their distance to the memory. A block therefore takes
// the next tile when it is ready for one: with a fixed order a slow block would fall behind, and
// find the windows that it shares with others evicted.
#pragma once

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::halo {

struct TilePosition {
  int32_t group, row_tile;  // output channels
  int32_t image, h, w;      // first image; first output

  __device__ __forceinline__ TilePosition(const Arguments& args, uint32_t index) {
    auto tile = static_cast<int32_t>(index);
    const auto next = [&](const FastDiv& div) {
      const int32_t quotient = div.quotient(tile);
      const int32_t rest = tile - quotient * div.divisor;
      tile = quotient;
      return rest;
    };
    row_tile = next(args.row_tiles_div);
    w = next(args.w_tiles_div) * args.w.tile;
    h = next(args.h_tiles_div) * args.h.tile;
    image = next(args.image_tiles_div) * args.tile_images;
    group = tile;
  }

  // The first output channel, within its group, of a math warpgroup.
  __device__ int32_t first_row(const Arguments& args, int32_t math_group) const {
    return args.share == Share::kChannels ? (row_tile * kMathGroups + math_group) * kRowsOfGroup
                                          : row_tile * kRowsOfGroup;
  }
};

// The numbers of a block's tiles, in the order in which the load warps took them. Every warp reads
// each number once; the number that ends the queue is that of no tile.
class TileQueue {
 public:
  __device__ __forceinline__ explicit TileQueue(const SharedMemory& shared) : shared_(shared) {}

  __device__ __forceinline__ uint32_t next() {
    const uint32_t entry = position_ % kQueuedTiles;
    mbarrier_wait(shared_.tile_taken(entry), position_ / kQueuedTiles & 1);
    ++position_;
    return __shfl_sync(~0u, shared_.tiles()[entry], 0);  // the compiler sees it is uniform
  }

 private:
  const SharedMemory& shared_;
  uint32_t position_ = 0;
};

// One thread of the block puts tiles into its queue, some of them ahead of the tile that the thread
// itself begins. The first numbers follow from the block's index. Later ones come from the launch's
// counter, one request being always on its way; the blocks of a cluster compute the same tiles and
// use no counter.
class TileTaker {
 public:
  __device__ __forceinline__ TileTaker(const Arguments& args, const SharedMemory& shared,
                                       uint32_t ahead)
      : args_(args), shared_(shared), ahead_(ahead), taken_(blockIdx.x / args.splits) {}

  __device__ __forceinline__ void put_first() {
    for (; position_ < ahead_; taken_ += args_.clusters) put();
  }

  // When the block begins a tile.
  __device__ __forceinline__ void put_next() {
    put();
    taken_ = args_.splits > 1 ? taken_ + args_.clusters
                              : (ahead_ + 1) * args_.clusters + atomicAdd(args_.tile_counter, 1u);
  }

 private:
  __device__ __forceinline__ void put() {
    const uint32_t entry = position_++ % kQueuedTiles;
    shared_.tiles()[entry] = taken_;
    cuda::ptx::mbarrier_arrive(shared_.tile_taken(entry));
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t ahead_;
  uint32_t taken_;  // to be put next
  uint32_t position_ = 0;
};

}  // namespace haloconv::halo
