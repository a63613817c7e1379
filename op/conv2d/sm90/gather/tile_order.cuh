// Which tiles a block computes, and in which order.
//
// The blocks that run at one time have neighbouring numbers: first the output channels of one
// window, which share its input in the L2 cache, then neighbours along the row.
#pragma once

#include "conv2d/sm90/gather/arguments.h"

namespace haloconv::sm90 {

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

// The calling thread in its block, a number that the compiler cannot keep in a register from tile
// to tile.
__device__ __forceinline__ uint32_t this_thread() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Calls body(tile) for each tile of this block's cluster.
template <class Body>
__device__ __forceinline__ void for_each_tile(const Arguments& args, Body body) {
  for (uint32_t tile = blockIdx.x / args.splits; tile < args.tiles; tile += args.clusters) {
    body(tile);
  }
}

}  // namespace haloconv::sm90
