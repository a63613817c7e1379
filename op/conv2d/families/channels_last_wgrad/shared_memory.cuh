// What a block has in shared memory: the ring of stages, zeros, ones, the bias's sums, barriers.
#pragma once

#include <cuda_fp16.h>

#include <cuda/ptx>
#include <type_traits>

#include "conv2d/families/channels_last_wgrad/arguments.h"
#include "conv2d/families/channels_last_wgrad/shared_bytes.h"
#include "cuda/cluster.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/tma.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// Barriers of some warps: those that sum grad_output for the bias; those that multiply; and the
// whole block's, that these sums are there and nobody reads the ring any more, and that the ring's
// own are made.
enum Barrier { kBiasBarrier = 1, kRowEndsBarrier, kEpilogueBarrier, kBeginBarrier };

// A block in its cluster, whose ranks are (part of the pixels, tile).
struct ClusterPlace {
  int32_t tile, split;
  uint16_t sharers;  // a bit for each rank of the same part

  __device__ __forceinline__ explicit ClusterPlace(const Arguments& args) {
    const int32_t rank = cluster_rank();
    split = args.tiles_of_cluster.quotient(rank);
    tile = rank - split * args.cluster_tiles;
    sharers = static_cast<uint16_t>(((1 << args.cluster_tiles) - 1) << (rank - tile));
  }
};

// Steps of a stage by their bits: the steps of a patch or, where grad_output has its rows
// innermost, the last ones of its rows.
using SpoiledSteps = uint32_t;

template <Tile kTile>
struct Shared {
  unsigned char* ring;
  unsigned char* zeros;
  unsigned char* ones;
  float* bias;  // of a row of the tile
  uint64_t *full, *empty;
  SpoiledSteps* spoiled;  // of the stage that is multiplied
  int32_t stage_bytes;

  __device__ __forceinline__ Shared(const Arguments& args, unsigned char* base) {
    ring = base;
    stage_bytes =
        kTile.row_warpgroups * args.grad_output_bytes + args.input_boxes * args.input_bytes;
    zeros = ring + args.stages * stage_bytes;
    ones = zeros + args.zero_bytes;
    bias = reinterpret_cast<float*>(ones + kOnesBytes);
    full = reinterpret_cast<uint64_t*>(bias + kTile.rows());
    empty = full + kMaxStages;
    spoiled = reinterpret_cast<SpoiledSteps*>(empty + kMaxStages);
  }

  __device__ __forceinline__ void init_barriers(int32_t stages, uint32_t readers) const {
    for (int32_t i = 0; i < stages; ++i) {
      cuda::ptx::mbarrier_init(full + i, 1);
      cuda::ptx::mbarrier_init(empty + i, readers);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }

  // By the math threads, which then wait for each other before any of them multiplies.
  template <class T>
  __device__ __forceinline__ void write_constants(int32_t zero_bytes) const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    for (int32_t i = thread; i < zero_bytes / 16; i += kTile.math_threads()) {
      reinterpret_cast<uint4*>(zeros)[i] = {};
    }
    if (thread < kOnesBytes / 16) {
      constexpr uint32_t kTwo = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;
      reinterpret_cast<uint4*>(ones)[thread] = {kTwo, kTwo, kTwo, kTwo};
    }
    if (thread == 0) *spoiled = 0;
    // The matrix instructions read what ordinary stores wrote.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }

  // By a whole warp that has read a stage: to all who write it.
  __device__ __forceinline__ void release(const Arguments& args, const ClusterPlace& place,
                                          int32_t stage) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    if (lane >= args.cluster_tiles) return;
    if (args.cluster_tiles == 1) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, empty + stage);
      return;
    }
    const int32_t rank = place.split * args.cluster_tiles + lane;
    arrive_at(shared_address_at(shared_address_of(empty + stage), rank));
  }

  __device__ __forceinline__ uint32_t stage(int32_t i) const {
    return shared_address_of(ring) + i * stage_bytes;
  }
};

}  // namespace haloconv::sm90::channels_last_wgrad
