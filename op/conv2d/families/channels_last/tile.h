// What a block computes at a time, and how its shared memory is divided.
#pragma once

#include <cstdint>

namespace haloconv::sm90::channels_last {

// Two warpgroups multiply, each one half of the tile's pixels; one more warp brings their operands.
// With so few threads besides those that multiply, these have registers enough.
inline constexpr int kMathGroups = 2;
inline constexpr int kThreads = kMathGroups * 128 + 32;

// A stage holds 64 products deep: 64 / depth units, each of `depth` channels of one tap.
inline constexpr int kStageDepth = 64;

struct Tile {
  int pixels = 128;    // of the destination
  int channels = 128;  // of the destination
  int depth = 64;      // channels of the source that a unit holds: 64, 32 or 16

  constexpr bool operator==(const Tile&) const = default;
};

inline constexpr Tile kTiles[] = {
    {128, 64, 64}, {128, 128, 64}, {256, 64, 64}, {256, 128, 64}, {128, 256, 64}};

inline constexpr Tile kWindowTiles[] = {{128, 64}, {128, 128}, {256, 64}, {256, 128}, {128, 256}};

constexpr int units_of(const Tile& tile) { return kStageDepth / tile.depth; }
constexpr int stage_bytes(const Tile& tile) {
  return (tile.pixels + tile.channels) * kStageDepth * 2;
}
// Blocks that share a multiprocessor: one's results are written while the other multiplies. A
// thread of a larger tile has too many sums for that.
constexpr int blocks_of(const Tile& tile) {
  return tile.pixels * tile.channels <= 128 * 128 && tile.pixels <= 128 ? 2 : 1;
}
// Shared memory that a block's stages may take, where there are so many blocks: one that has a
// multiprocessor for itself may have all of it. What is left is for barriers and alignment.
constexpr int64_t stage_room(const Tile& tile, int64_t blocks, int64_t multiprocessors) {
  return (blocks_of(tile) == 1 || blocks <= multiprocessors ? 224 : 111) * 1024;
}
inline constexpr int kMaxStages = 12;
inline constexpr int kAlignment = 1024;  // of stages

}  // namespace haloconv::sm90::channels_last
