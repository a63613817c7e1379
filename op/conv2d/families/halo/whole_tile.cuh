// Where a tile lies that is a piece of one row and that the copy engine writes.
#pragma once

#include "conv2d/families/halo/tile_order.cuh"

namespace haloconv::halo {

// The row's last tile begins where it ends with the row, so that all tiles are whole. What it has
// in common with the one before is written twice, the same values.
struct WholeTile : TilePosition {
  __device__ __forceinline__ WholeTile(const Arguments& args, uint32_t index)
      : TilePosition(args, index) {
    w = min(w, args.w.outputs - args.w.tile);
  }
};

}  // namespace haloconv::halo
