// Alternating tiles of one tap whose filter stays in shared memory: a block computes tiles of the
// same channels, so that the filter comes with its first tile, and later ones bring their source
// alone, which is 16 KB a step of 128 x 128 for 32.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/families/channels_last/phases.h"
#include "conv2d/geometry/fast_div.h"

struct CUstream_st;

namespace haloconv::sm90::channels_last {

struct Instance;
struct TensorMaps;

// Of 192 channels, because some layers have 144, and of 64 pixels, because images of 7 x 7 are
// whole such tiles where they are 64.
inline constexpr Tile kStayingTiles[] = {
    {128, 128, 64, 2, true}, {128, 192, 64, 2, true}, {64, 128, 64, 2, true}};

// A block's tiles. Where the blocks are a multiple of the tiles of channels, each keeps to one of
// these, and all blocks go over the pixels together. Otherwise a block has as many tiles as others,
// side by side along the pixels, and its filter changes where a tile of channels ends.
struct StayingTiles {
  int32_t pixel_tiles, channel_tiles;
  int32_t step;  // along the pixels
  int32_t left;
  int32_t pixel_tile, channel_tile;

  HALOCONV_HOST_DEVICE StayingTiles(int32_t tiles, const FastDiv& of_channels, int32_t block,
                                    int32_t blocks)
      : pixel_tiles(of_channels.quotient(tiles)), channel_tiles(of_channels.divisor) {
    const int32_t rows = of_channels.quotient(blocks);
    if (rows * channel_tiles == blocks) {
      pixel_tile = of_channels.quotient(block);
      channel_tile = block - pixel_tile * channel_tiles;
      step = rows;
      left = (pixel_tiles - pixel_tile + rows - 1) / rows;
    } else {
      const int32_t each = tiles / blocks, more = tiles - each * blocks;
      const int32_t first = block * each + (block < more ? block : more);
      step = 1;
      left = each + (block < more ? 1 : 0);
      channel_tile = first / pixel_tiles;
      pixel_tile = first - channel_tile * pixel_tiles;
    }
  }

  // As all tiles are numbered.
  HALOCONV_HOST_DEVICE int32_t number() const { return pixel_tile * channel_tiles + channel_tile; }

  // Whether the filter changes.
  HALOCONV_HOST_DEVICE bool advance() {
    --left;
    pixel_tile += step;
    if (pixel_tile < pixel_tiles) return false;
    pixel_tile = 0;
    ++channel_tile;
    return true;
  }
};

struct StayingLaunch {
  Launch launch;
  int32_t blocks = 0;
  int32_t filter_units = 0;  // that stay
};

// None if there are several taps or phases, or if the filter is too large.
std::optional<StayingLaunch> make_staying_launch(const Conv2dProblem& problem, Direction direction,
                                                 const OrderedPhases& phases, const Tile& tile,
                                                 int multiprocessors);

template <Tile kTile>
void launch_staying(const Instance& instance, const StayingLaunch& staying, const TensorMaps& maps,
                    CUstream_st* stream);

}  // namespace haloconv::sm90::channels_last
