// Where a tile lies that is a piece of one row and that the copy engine writes.
#pragma once

#include "conv2d/families/halo/tile_order.cuh"

namespace haloconv::halo {

// The row's last tile begins where it ends with the row, so that all tiles are whole. What it has
// in common with the one before is computed twice, the same values.
struct WholeTile : TilePosition {
  int32_t overlap;  // columns that the tile before it in the row has too

  __device__ __forceinline__ WholeTile(const Arguments& args, uint32_t index)
      : TilePosition(args, index) {
    const int32_t last = args.w.outputs - args.w.tile;
    overlap = max(w - last, 0);
    w = min(w, last);
  }

  // Whether the math warpgroups' results begin in memory where those of the tile before it, by
  // number, end.
  __device__ __forceinline__ bool follows(const Arguments& args) const {
    const bool rows_follow = args.share == Share::kChannels && args.destination_h == args.w.outputs;
    return w > 0 || (h > 0 && rows_follow);
  }
};

}  // namespace haloconv::halo
