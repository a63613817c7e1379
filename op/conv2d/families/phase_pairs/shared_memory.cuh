// The places in a block's shared memory: the ring's stages, each a window and the filter of a
// chunk, then their barriers.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/phase_pairs/arguments.h"

namespace haloconv::phase_pairs {

struct SharedMemory {
  unsigned char* base;
  const Arguments& args;

  __device__ unsigned char* window(int32_t stage) const { return base + stage * args.stage_bytes; }
  __device__ unsigned char* filter(int32_t stage) const {
    return window(stage) + ((args.window_bytes + 127) & ~127);
  }
  // Complete when a stage holds a chunk, and when all math warps have read it.
  __device__ uint64_t* full(int32_t stage) const { return barriers() + stage; }
  __device__ uint64_t* empty(int32_t stage) const { return barriers() + kMaxStages + stage; }

 private:
  __device__ uint64_t* barriers() const {
    return reinterpret_cast<uint64_t*>(base + args.stages * args.stage_bytes);
  }
};

// Of a number.
struct TilePosition {
  int32_t channel_tile, phase;
  int32_t column, row, image;  // the first

  __device__ __forceinline__ TilePosition(const Arguments& args, int32_t index) {
    const auto next = [&](const FastDiv& div) {
      const int32_t quotient = div.quotient(index);
      const int32_t rest = index - quotient * div.divisor;
      index = quotient;
      return rest;
    };
    channel_tile = next(args.channel_tiles);
    phase = next(args.row_phases);
    column = next(args.column_tiles) << args.log2_columns;
    row = next(args.row_tiles) << args.log2_rows;
    image = index * args.box[3];
  }
};

}  // namespace haloconv::phase_pairs
