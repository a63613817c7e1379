// The filter's fragments in shared memory, where all warps of a block read the same channels: a
// ring of two steps of two depths each, of which the warps read one while the threads fill the
// other. Behind it stands where in the window the pixels of each of a chunk's depths lie.
#pragma once

#include <cstdint>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/tile.h"

namespace haloconv::implicit_gemm {

inline constexpr int kStepDepths = 2, kRingSteps = 2;

// On an H200 these took 0.84 to 1 of the time of those whose warps read the filter from memory.
// Tiles of 128 x 128, of which two warps read the same channels, and most of 512 x 32 took longer.
HALOCONV_HOST_DEVICE constexpr bool takes_ring(const Tile& tile) {
  return tile.channels == tile.warp_channels && tile.warp_channels == 64 && tile.pixels == 256;
}
// In the code for 8.0, which chips after 9.x run too, ptxas spills with two steps in the loop's
// body, and with one step this was slower on an H200 than without a ring.
constexpr bool takes_ring(const Tile& tile, const Chip& chip) {
  return takes_ring(tile) && chip.compute_capability / 10 == 9;
}

HALOCONV_HOST_DEVICE constexpr int ring_depth_bytes(const Tile& tile) {
  return tile.channels * 2 * kUnitBytes;
}
HALOCONV_HOST_DEVICE constexpr int ring_filter_bytes(const Tile& tile) {
  return kRingSteps * kStepDepths * ring_depth_bytes(tile);
}

// Places: words, for depth k number k + 1, so that those of a step's second depth and of the next
// step's first are a pair. A step's pair is loaded a step ahead: there are some behind the last.
HALOCONV_HOST_DEVICE constexpr int32_t place_words(int32_t depths) {
  return (depths + 1) / kStepDepths * kStepDepths + 2 * kStepDepths;
}

// Of both.
HALOCONV_HOST_DEVICE constexpr int32_t ring_bytes(const Tile& tile, int32_t depths) {
  return ring_filter_bytes(tile) + place_words(depths) * static_cast<int32_t>(sizeof(int32_t));
}

// To launches of wide windows by elements, unless fewer blocks would share a multiprocessor.
void add_rings(const Tile& tile, const Chip& chip, std::vector<Arguments>& launches);

}  // namespace haloconv::implicit_gemm
