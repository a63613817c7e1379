// Input gradients and some forward passes in TF32 by columns of pixels, as products that are turned
// around: their rows are channels of the result, their columns pixels. The matrix instruction takes
// TF32 operands from shared memory with the depth innermost, and a gradient's filter lies with the
// channels of the result innermost. As the first operand it may come from registers, so that no
// kernel has to transpose it before.
//
// A thread then has neighbouring channels of its pixels, 8 or 16 bytes, because which channel is
// which row of the product is free.
#pragma once

#include <optional>
#include <vector>

#include "conv2d/families/channels_last/arguments.h"
#include "conv2d/families/channels_last/phases.h"
#include "conv2d/problem.h"

struct CUstream_st;

namespace haloconv::sm90::channels_last {

struct TensorMaps;

inline constexpr Tile kTurnedTiles[] = {{128, 128, 32, 4},       {192, 128, 32, 4},
                                        {128, 256, 32, 4},       {256, 64, 32, 4, true},
                                        {128, 128, 32, 4, true}, {192, 128, 32, 4, true}};

// Forward passes, whose filter lies as the instruction takes it, gain by turns alone.
HALOCONV_HOST_DEVICE constexpr bool is_turned(const Tile& tile, bool dgrad) {
  return dgrad || tile.alternates;
}

// How a tile is divided among warpgroups: each has half of its channels, or all, if they take
// turns.
struct TurnedPart {
  int channels;  // of a warpgroup
  int blocks;    // rows of its product, by 64

  HALOCONV_HOST_DEVICE constexpr explicit TurnedPart(const Tile& tile)
      : channels(tile.alternates ? tile.channels : tile.channels / kMathGroups),
        blocks(channels / 64) {}

  // Neighbouring channels of the result that a thread has.
  HALOCONV_HOST_DEVICE constexpr int thread_channels() const { return 2 * blocks; }
};

struct TurnedLaunch {
  std::vector<Launch> launches;
};

// None where the copy engine does not take the columns.
std::optional<TurnedLaunch> make_turned_launch(const Conv2dProblem& problem, Direction direction,
                                               const OrderedPhases& phases, const Tile& tile,
                                               int multiprocessors);

template <Tile kTile>
void launch_turned(bool dgrad, const Arguments& args, const TensorMaps& maps, int multiprocessors,
                   CUstream_st* stream);

}  // namespace haloconv::sm90::channels_last
