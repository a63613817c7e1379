// What a block computes at a time, and how its shared memory is divided.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::channels_last {

// Two warpgroups multiply, or three, each its part of the tile's pixels; one more warp brings their
// operands. With so few threads besides those that multiply, these have registers enough.
inline constexpr int kMathGroups = 2;
inline constexpr int kThreads = kMathGroups * 128 + 32;

// A stage holds 128 bytes of each row of both operands: units of `depth` channels of one tap.
inline constexpr int kStageRowBytes = 128;

struct Tile {
  int pixels = 128;       // of the destination
  int channels = 128;     // of the destination
  int depth = 64;         // channels of the source that a unit holds, 128, 64 or 32 bytes
  int element_bytes = 2;  // 4: float32, multiplied in TF32
  // Two warpgroups take turns with a tile each: one writes its results while the other multiplies.
  bool alternates = false;

  constexpr bool operator==(const Tile&) const = default;
  HALOCONV_HOST_DEVICE constexpr int row_bytes() const { return depth * element_bytes; }
};

// Of 192 pixels, because many layers are as many such tiles as there are multiprocessors, and of
// 192 channels, because many have so many, or twice.
inline constexpr Tile kTiles[] = {
    {128, 64, 64},     {128, 128, 64},          {256, 64, 64},          {256, 128, 64},
    {128, 256, 64},    {192, 128, 64},          {192, 192, 64},         {192, 128, 32, 4},
    {128, 64, 32, 4},  {128, 128, 32, 4},       {256, 64, 32, 4},       {256, 128, 32, 4},
    {128, 256, 32, 4}, {192, 128, 64, 2, true}, {128, 128, 64, 2, true}};

// Windows of few source channels are as narrow. Few channels of the destination have tiles of 32;
// 160 are for layers from 24 channels to 144.
inline constexpr Tile kWindowTiles[] = {
    {128, 64, 64},         {128, 128, 64},    {256, 64, 64},     {256, 128, 64},
    {128, 256, 64},        {128, 64, 32, 4},  {128, 128, 32, 4}, {256, 64, 32, 4},
    {256, 128, 32, 4},     {128, 256, 32, 4}, {128, 64, 32},     {128, 128, 32},
    {256, 64, 32},         {128, 64, 16},     {128, 128, 16},    {256, 64, 16},
    {256, 32, 64},         {256, 32, 32, 4},  {256, 32, 32},     {128, 160, 32},
    {256, 64, 64, 2, true}};

HALOCONV_HOST_DEVICE constexpr int math_groups_of(const Tile& tile) {
  return tile.pixels == 192 && !tile.alternates ? 3 : kMathGroups;
}
// That multiply a tile together.
HALOCONV_HOST_DEVICE constexpr int groups_of_tile(const Tile& tile) {
  return tile.alternates ? 1 : math_groups_of(tile);
}
HALOCONV_HOST_DEVICE constexpr int threads_of(const Tile& tile) {
  // Of alternating tiles the warp that brings operands has a group, whose registers the others
  // take.
  return math_groups_of(tile) * 128 + (tile.alternates ? 128 : 32);
}
HALOCONV_HOST_DEVICE constexpr int units_of(const Tile& tile) {
  return kStageRowBytes / tile.row_bytes();
}
constexpr int stage_bytes(const Tile& tile) {
  return (tile.pixels + tile.channels) * kStageRowBytes;
}
// Channels of the destination in a row of dgrad's filter unit of 16-bit types: 64, or 32 where a
// unit is no whole rows of 64. A unit of more channels is several columns of such rows, one after
// the other.
HALOCONV_HOST_DEVICE constexpr int filter_row_channels(const Tile& tile) {
  return tile.channels < 64 ? tile.channels : tile.channels % 64 == 0 ? 64 : 32;
}
// What becomes of a tile's sums.
enum class Epilogue {
  kNone,
  kFused,    // bias, scale, shift, residual or activation
  kInBoxes,  // the same, with a residual that passes through the ring: result_boxes.cuh
};

// A tile's residual and results of 16 bits pass through the ring as boxes of 64 channels, hence 128
// bytes of each pixel: some boxes a stage.
inline constexpr int kBoxChannels = 64;
HALOCONV_HOST_DEVICE constexpr int boxes_of(const Tile& tile) {
  return tile.channels / kBoxChannels;
}
HALOCONV_HOST_DEVICE constexpr int boxes_of_stage(const Tile& tile) {
  const int room = (tile.pixels + tile.channels) / tile.pixels, boxes = boxes_of(tile);
  const int stages = (boxes + room - 1) / room;
  return (boxes + stages - 1) / stages;
}
// Of what there are kernels: dgrad is hardly fused with a residual.
HALOCONV_HOST_DEVICE constexpr bool takes_boxes(const Tile& tile, bool dgrad) {
  return tile.element_bytes == 2 && tile.row_bytes() == kStageRowBytes &&
         tile.channels % kBoxChannels == 0 && !tile.alternates && !dgrad;
}
// Blocks that share a multiprocessor: one's results are written while the other multiplies. A
// thread of a larger tile has too many sums for that.
constexpr int blocks_of(const Tile& tile) {
  return tile.pixels * tile.channels <= 128 * 128 && tile.pixels <= 128 && !tile.alternates ? 2 : 1;
}
inline constexpr int kAlignment = 1024;  // of stages
// Shared memory that a block's stages may take, where there are so many blocks: one that has a
// multiprocessor for itself may have all of it. Each kernel checks that it has as much beside its
// barriers and its table of what is fused.
inline constexpr int kMostStageBytes = 222 * 1024;
constexpr int64_t stage_room(const Tile& tile, int64_t blocks, int64_t multiprocessors) {
  return blocks_of(tile) == 1 || blocks <= multiprocessors ? kMostStageBytes : 110 * 1024;
}
// What kernels ask for.
inline constexpr int kMostSharedBytes = kAlignment + kMostStageBytes;

// Where the results of an alternating tile are copied from shared memory (copied_results.cuh), each
// warpgroup has room for so many blocks of 64 pixels, and the ring has what is left.
HALOCONV_HOST_DEVICE constexpr int staged_blocks(const Tile& tile) {
  return tile.pixels == 64 ? 1 : 2;
}
constexpr int staged_bytes(const Tile& tile) {
  return kMathGroups * staged_blocks(tile) * 64 * tile.channels * tile.element_bytes;
}
// Such a kernel has no table.
inline constexpr int kMostAlternatingBytes = 224 * 1024;
constexpr int64_t stage_room_beside_results(const Tile& tile) {
  return kMostAlternatingBytes - staged_bytes(tile);
}
inline constexpr int kMostAlternatingSharedBytes = kAlignment + kMostAlternatingBytes;
inline constexpr int kMaxStages = 12;

}  // namespace haloconv::sm90::channels_last
