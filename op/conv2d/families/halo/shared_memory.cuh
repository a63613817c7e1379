// Where a block's parts of shared memory are.
#pragma once

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/window.h"

namespace haloconv::halo {

// The block's barriers by number: cuda/named_barrier.cuh.
enum class NamedBarrier {
  kChunksAhead = 1,  // the first math group has computed its first chunks: the second may start
  kTable = 2,        // the load warps have written their table
};

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  // The window ring, (stage, term of the values, k-half, cell) of 16 bytes.
  template <int kTerms>
  __device__ unsigned char* stage(int32_t index) const {
    return base + index * args.window_cells * (kTerms * kChunkBytes);
  }
  // (warp, channel, pixel) results on their way out.
  __device__ float* staging() const { return reinterpret_cast<float*>(base + args.staging_at); }
  __device__ WindowEntry* table() const {
    return reinterpret_cast<WindowEntry*>(base + args.table_at);
  }
  // The cell that each tap meets for the tile's first output; then those of the first taps again.
  __device__ uint32_t* tap_cells() const {
    return reinterpret_cast<uint32_t*>(base + args.taps_at);
  }
  // Numbers of the tiles to come, and their barriers: complete when the number is there.
  __device__ uint32_t* tiles() const { return reinterpret_cast<uint32_t*>(base + args.tiles_at); }
  __device__ uint64_t* tile_taken(uint32_t index) const {
    return barriers() + 2 * kMaxStages + 3 * kMathWarps + index;
  }
  // Completes when a stage holds a window.
  __device__ uint64_t* full(int32_t index) const { return barriers() + index; }
  // Completes when both math groups have read a stage.
  __device__ uint64_t* empty(int32_t index) const { return barriers() + kMaxStages + index; }
  // Of one math warp: complete when that warp of every block of the cluster has staged its sums,
  // and when all have read them.
  __device__ uint64_t* staged(int32_t warp) const { return barriers() + 2 * kMaxStages + warp; }
  __device__ uint64_t* drained(int32_t warp) const {
    return barriers() + 2 * kMaxStages + kMathWarps + warp;
  }
  // Completes when all lanes of the warp have staged, and again when all have read.
  __device__ uint64_t* met(int32_t warp) const {
    return barriers() + 2 * kMaxStages + 2 * kMathWarps + warp;
  }

 private:
  __device__ uint64_t* barriers() const {
    return reinterpret_cast<uint64_t*>(base + args.barriers_at);
  }
};

}  // namespace haloconv::halo
