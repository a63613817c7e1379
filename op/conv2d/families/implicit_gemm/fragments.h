// The filter as fragments: in the order in which a warp's lanes hold it for the matrix instruction.
//
// A fragment is what a warp multiplies of 16 destination channels in one depth, two units of a
// tap's channels: 16 bytes for each lane, which one load brings from memory straight to registers.
// Of each 8 channels a lane holds word lane % 4 of both units of channel lane / 4: of the first 8
// both, then of the next; or for strips (strips.h), where the filter is the instruction's other
// operand, of both eights the first unit's, then the second's, and of another channel.
//
// Fragments lie by group, phase, depth and channels. Depths are in the order of the windows:
// chunks, their taps, a tap's units. All channels of the tiles have fragments, with zeros for those
// that do not exist, and so has one depth more behind the last, for who loads one depth ahead.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/implicit_gemm/arguments.h"

namespace haloconv::implicit_gemm {

inline constexpr int kFragmentChannels = 16;
inline constexpr int kFragmentBytes = 32 * kUnitBytes;

// Whether a launch reads them: where windows are staged.
HALOCONV_HOST_DEVICE constexpr bool has_fragments(const Arguments& args) {
  return args.staging.bytes > 0;
}

// Of a depth.
HALOCONV_HOST_DEVICE constexpr int32_t depth_fragments(const Arguments& args, int tile_channels) {
  return args.channel_tiles.divisor * (tile_channels / kFragmentChannels);
}

// Elements of all of them.
int64_t fragment_elements(const std::vector<Arguments>& launches, const Tile& tile, DataType type);

// The channel of each eight of which a lane has words and sums in strips: even ones first. A half
// of a warp, whose pairs of float32 shared memory takes at once, then has lines that begin alike
// where every other channel's do.
HALOCONV_HOST_DEVICE constexpr int32_t strip_channel(int32_t lane) {
  return lane / 4 % 4 * 2 + lane / 16;
}

// Of a word of a lane: the channel among the fragment's, and the unit and the word in the depth.
struct FragmentWord {
  int32_t channel, unit, word;

  HALOCONV_HOST_DEVICE constexpr FragmentWord(int32_t lane, int32_t number, bool for_strips)
      : channel(for_strips ? number % 2 * 8 + strip_channel(lane) : number / 2 * 8 + lane / 4),
        unit(for_strips ? number / 2 : number % 2),
        word(lane % 4) {}
};

// A lane's unit of a phase's fragments: its fragment among the depth's, the depth's tap, and the
// first of its two units of channels.
struct FragmentPlace {
  int32_t depth, fragment, lane, y, x, unit;

  HALOCONV_HOST_DEVICE FragmentPlace(int64_t number, int32_t fragments_of_depth, const Phase& phase)
      : lane(static_cast<int32_t>(number % 32)) {
    const auto among_all = static_cast<int32_t>(number / 32);
    depth = among_all / fragments_of_depth;
    fragment = among_all - depth * fragments_of_depth;
    const int32_t pair = phase.taps.quotient(depth), tap = depth - pair * phase.taps.divisor;
    y = phase.taps_w.quotient(tap);
    x = tap - y * phase.taps_w.divisor;
    unit = 2 * pair;
  }
};

}  // namespace haloconv::implicit_gemm
