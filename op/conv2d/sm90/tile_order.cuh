// Which tiles a block computes, and in which order.
//
// The blocks that run at one time have neighbouring numbers: first the output channels of one
// window, which share its input in the L2 cache, then neighbours along the row.
#pragma once

#include "conv2d/sm90/arguments.h"

namespace haloconv::sm90 {

struct TilePosition {
  int32_t group, row_tile;  // output channels
  int32_t image, h, w;      // first image; first output, which may be negative along w

  __device__ TilePosition(const Arguments& args, uint32_t tile) {
    row_tile = static_cast<int32_t>(tile % args.row_tiles);
    tile /= args.row_tiles;
    w = static_cast<int32_t>(tile % args.w.tiles) * args.w.tile_step + args.w.first_output;
    tile /= args.w.tiles;
    h = static_cast<int32_t>(tile % args.h.tiles) * args.h.tile_step;
    tile /= args.h.tiles;
    image = static_cast<int32_t>(tile % args.image_tiles) * args.tile_images;
    group = static_cast<int32_t>(tile / args.image_tiles);
  }

  // The first output channel, within its group, of a math warpgroup.
  __device__ int32_t first_row(const Arguments& args, int32_t math_group) const {
    return args.share == Share::kChannels ? (row_tile * kMathGroups + math_group) * kRowsOfGroup
                                          : row_tile * kRowsOfGroup;
  }
};

// Calls body(tile) for each tile of this block's cluster.
template <class Body>
__device__ __forceinline__ void for_each_tile(const Arguments& args, Body body) {
  const uint32_t step = gridDim.x / args.splits;
  for (uint32_t tile = blockIdx.x / args.splits; tile < args.tiles; tile += step) {
    body(tile);
  }
}

}  // namespace haloconv::sm90
