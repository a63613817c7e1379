// Brings the chunks of a block's tiles: one thread issues all copies.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/phase_pairs/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/tma.cuh"

namespace haloconv::phase_pairs {

__device__ __forceinline__ void bring_tiles(const Arguments& args, const CUtensorMap* source,
                                            const SharedMemory& shared, int32_t depth) {
  RingPosition ring;
  for (auto index = static_cast<int32_t>(blockIdx.x); index < args.tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const TilePosition tile(args, index);
    const RowPhase& phase = args.phase[tile.phase];
    const unsigned char* packed = static_cast<const unsigned char*>(args.packed) + phase.packed_at +
                                  int64_t{tile.channel_tile} * args.chunks * phase.step_bytes;
    for (int32_t chunk = 0; chunk < args.chunks; ++chunk, packed += phase.step_bytes) {
      mbarrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
      uint64_t* const full = shared.full(ring.stage);
      cuda::ptx::mbarrier_arrive_expect_tx(
          cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared, full,
          static_cast<uint32_t>(args.window_bytes + phase.step_bytes));
      const uint32_t barrier = shared_address_of(full);
      copy_box(shared_address(shared.window(ring.stage)), source, barrier,
               tile.column + args.column_origin, tile.row + phase.origin, chunk * depth,
               tile.image);
      cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global,
                               shared.filter(ring.stage), packed,
                               static_cast<uint32_t>(phase.step_bytes), full);
      ring.advance(args.stages);
    }
  }
}

}  // namespace haloconv::phase_pairs
