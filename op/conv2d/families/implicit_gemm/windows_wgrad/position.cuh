// What of the filter's gradient a block and its warps have.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"
#include "cuda/this_thread.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::windows_wgrad {

// A block's first output channel and tap, which chunk of the channels, and its patches.
struct BlockPosition {
  int32_t row, tap, chunk, group, split, first_patch, patches;

  // Rows change fastest and splits slowest, so that blocks that run together read the same patches.
  __device__ __forceinline__ BlockPosition(const Arguments& args, const Tile& tile,
                                           int32_t chunk_channels) {
    auto rest = static_cast<int32_t>(blockIdx.x);
    const auto take = [&](int32_t count) {
      const int32_t number = rest % count;
      rest /= count;
      return number;
    };
    row = take(args.row_tiles) * tile.rows;
    tap = take(args.tap_tiles) * (tile.columns / chunk_channels);
    chunk = take(args.forward.windows.chunks);
    group = take(args.geometry.groups);
    split = rest;
    first_patch = split * args.split_patches;
    patches = min(args.split_patches, args.patches - first_patch);
  }
};

// A warp's share.
struct WarpPosition {
  int32_t number, row, lane;
  int32_t block_tap;       // the block's first, of the filter
  int32_t first_column;    // of the tile's
  int32_t chunk_channels;  // a power of two, of each tap
  int32_t first_channel;   // of the input, in the group

  __device__ __forceinline__ WarpPosition(const BlockPosition& at, const Tile& tile,
                                          int32_t chunk_channels)
      : number(this_warp()),
        lane(static_cast<int32_t>(this_thread()) % 32),
        chunk_channels(chunk_channels) {
    row = number / tile.warps_along_columns() * 64;
    block_tap = at.tap;
    first_column = number % tile.warps_along_columns() * tile.warp_columns();
    first_channel = at.chunk * chunk_channels;
  }

  // Of one of its columns: the tap, and the channel in the chunk.
  __device__ __forceinline__ int32_t tap_of(int32_t column) const {
    return block_tap + (first_column + column) / chunk_channels;
  }
  __device__ __forceinline__ int32_t channel_of(int32_t column) const {
    return (first_column + column) & (chunk_channels - 1);
  }
};

}  // namespace haloconv::windows_wgrad
