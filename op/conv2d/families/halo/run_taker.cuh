// One thread of the block puts runs of neighbouring tiles into its queue: tile_order.cuh's
// TileTaker for blocks that go along rows. The first run follows from the block's index, later ones
// come from the launch's counter. The request for a run is on its way while the run before it is
// put.
#pragma once

#include "conv2d/families/halo/copied_lines.h"
#include "conv2d/families/halo/tile_order.cuh"

namespace haloconv::halo {

class RunTaker {
 public:
  __device__ __forceinline__ RunTaker(const Arguments& args, const SharedMemory& shared,
                                      uint32_t ahead)
      : args_(args), shared_(shared), ahead_(ahead) {}

  __device__ __forceinline__ void put_first() {
    run_tiles_ = tiles_of_run(args_, gridDim.x);
    begin_run(blockIdx.x);
    while (position_ < ahead_) put_next();
  }

  __device__ __forceinline__ void put_next() {
    const uint32_t entry = position_++ % kQueuedTiles;
    shared_.tiles()[entry] = taken_;
    cuda::ptx::mbarrier_arrive(shared_.tile_taken(entry));
    ++taken_;
    if (--left_ == 0) begin_run(next_run_);
  }

 private:
  __device__ __forceinline__ void begin_run(uint32_t run) {
    taken_ = run * run_tiles_;
    left_ = run_tiles_;
    next_run_ = gridDim.x + atomicAdd(args_.tile_counter, 1u);
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t ahead_;
  uint32_t run_tiles_ = 0, next_run_ = 0;
  uint32_t taken_ = 0, left_ = 0;  // the number to be put next, and how many from it on in the run
  uint32_t position_ = 0;
};

}  // namespace haloconv::halo
