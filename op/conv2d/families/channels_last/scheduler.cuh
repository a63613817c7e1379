// Which tiles a block computes: every so many'th of all, or of those that are zeros. Tiles of the
// same pixels follow each other, so that their source is read from memory once.
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

// The tiles that are multiplied; those of phases without taps, whose results are zeros, are the
// last.
__device__ __forceinline__ int32_t multiplied_tiles(const Arguments& args) {
  int32_t phases = args.phases;
  while (phases > 0 && args.phase[phases - 1].taps_h == 0) --phases;
  return phases == args.phases ? args.tiles
                               : args.phase[phases].first_tile * args.channel_tiles.divisor;
}

// From one of a block's tiles to its next. Where fewer tiles are multiplied than there are blocks,
// those that have none write all zeros meanwhile, unless these are so many that they would take
// longer.
template <Tile kTile>
__device__ __forceinline__ int32_t tile_step_of(const Arguments& args, int32_t block,
                                                int32_t blocks) {
  constexpr int kZerosSteps = 3;  // steps of products that take as long as a tile of zeros
  const int32_t multiplied = multiplied_tiles(args), idle = blocks - multiplied;
  if (idle <= 0 || multiplied == args.tiles) return blocks;
  const int64_t zeros = args.tiles - multiplied;
  if (zeros * kZerosSteps > int64_t{idle} * stages_of_phase<kTile>(args, args.phase[0])) {
    return blocks;
  }
  return block < multiplied ? args.tiles : idle;
}

}  // namespace haloconv::sm90::channels_last
