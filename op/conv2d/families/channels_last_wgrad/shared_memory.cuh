// What a block has in shared memory: the ring of stages, the bias's sums, barriers.
#pragma once

#include <cuda/ptx>

#include "conv2d/families/channels_last_wgrad/arguments.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "cuda/mbarrier.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::channels_last_wgrad {

template <Tile kTile>
struct Shared {
  unsigned char* ring;
  float* bias;  // [row of the tile]
  uint64_t *full, *empty;
  int32_t stage_bytes;

  __device__ __forceinline__ Shared(const Arguments& args, unsigned char* base) {
    const uint32_t address = shared_address_of(base);
    ring = base + ((address + 1023) / 1024 * 1024 - address);
    stage_bytes =
        kTile.row_warpgroups * args.grad_output_bytes + args.input_boxes * args.input_bytes;
    bias = reinterpret_cast<float*>(ring + args.stages * stage_bytes);
    full = reinterpret_cast<uint64_t*>(bias + kTile.rows());
    empty = full + kMaxStages;
  }

  __device__ __forceinline__ void init_barriers(int32_t stages, uint32_t readers) const {
    for (int32_t i = 0; i < stages; ++i) {
      cuda::ptx::mbarrier_init(full + i, 1);
      cuda::ptx::mbarrier_init(empty + i, readers);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }

  __device__ __forceinline__ uint32_t stage(int32_t i) const {
    return shared_address_of(ring) + i * stage_bytes;
  }
};

}  // namespace haloconv::sm90::channels_last_wgrad
