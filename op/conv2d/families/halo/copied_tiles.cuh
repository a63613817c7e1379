// What is different about pieces of one row that the copy engine writes: a row's last tile ends
// with the row, and bands of the source may be brought to the L2 cache.
#pragma once

#include "conv2d/families/halo/source_bands.h"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/prefetch_bytes.cuh"

namespace haloconv::halo {

// The row's last tile begins where it ends with the row, so that all tiles are whole. What it has
// in common with the one before is written twice, the same values.
struct WholeTile : TilePosition {
  __device__ __forceinline__ WholeTile(const Arguments& args, uint32_t index)
      : TilePosition(args, index) {
    w = min(w, args.w.outputs - args.w.tile);
  }
};

// Brings bands of the source to the L2 cache.
template <class T>
class BandPrefetch {
 public:
  __device__ __forceinline__ explicit BandPrefetch(const BandArguments& bands) : bands_(bands) {}

  // When the block's first math warp begins a tile: brings this block's share of the band that is
  // so many lines ahead, once.
  __device__ __forceinline__ void begin(const Arguments& args, uint32_t tile, int32_t lane) {
    if (bands_.lines == 0) return;
    const int32_t band = (BandArguments::line_of(args, tile) + bands_.ahead) / bands_.lines;
    if (band < next_band_) return;
    next_band_ = band + 1;
    const int32_t pieces = bands_.pieces(args);
    const auto blocks = static_cast<int32_t>(gridDim.x);
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(blockIdx.x) + lane * blocks; i < pieces;
         i += 32 * blocks) {
      const SourcePiece piece = source_piece(args, bands_, band, i);
      if (piece.first < 0) continue;
      prefetch_bytes(static_cast<const T*>(args.source) + piece.first,
                     args.w.source_size * static_cast<int32_t>(sizeof(T)));
    }
  }

 private:
  const BandArguments& bands_;
  int32_t next_band_ = 0;
};

}  // namespace haloconv::halo
