// Which tiles a block computes: every so many'th of all. Tiles of the same pixels follow each
// other, so that their source is read from memory once.
#pragma once

#include "conv2d/families/channels_last/arguments.h"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
struct TilePosition {
  int32_t phase;
  int32_t first_pixel;    // of the phase
  int32_t first_channel;  // of the destination

  __device__ __forceinline__ TilePosition(const Arguments& args, int32_t tile) {
    const int32_t pixel_tile = args.channel_tiles.quotient(tile);
    first_channel = (tile - pixel_tile * args.channel_tiles.divisor) * kTile.channels;
    phase = 0;
    while (phase + 1 < args.phases && pixel_tile >= args.phase[phase + 1].first_tile) ++phase;
    first_pixel = (pixel_tile - args.phase[phase].first_tile) * kTile.pixels;
  }
};

// A pixel of a phase by its number.
struct Pixel {
  int32_t image, row, column;

  __device__ __forceinline__ Pixel(const TilePhase& phase, int32_t number) {
    image = phase.plane.quotient(number);
    const int32_t in_image = number - image * phase.plane.divisor;
    row = phase.columns.quotient(in_image);
    column = in_image - row * phase.columns.divisor;
  }
};

// Units of a phase: what a tile's sums run over.
template <Tile kTile>
__device__ __forceinline__ int32_t stages_of_phase(const Arguments& args, const TilePhase& phase) {
  constexpr int kUnits = units_of(kTile);
  const int32_t chunks = (args.channels + kTile.depth - 1) / kTile.depth;
  return (phase.taps_h * phase.taps_w * chunks + kUnits - 1) / kUnits;
}

}  // namespace haloconv::sm90::channels_last
