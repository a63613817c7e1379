// What of the filter's gradient a block and its warps have, and the rows that a block walks.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/arguments.h"
#include "cuda/this_thread.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::windows_wgrad {

// A block's first output channel and tap, which chunk of the channels, and which split of the rows.
struct BlockPosition {
  int32_t row, tap, chunk, group, split;

  // Rows change fastest and splits slowest, so that blocks that run together read the same pixels.
  __device__ __forceinline__ BlockPosition(const Arguments& args, const Tile& tile)
      : BlockPosition(args, tile, static_cast<int32_t>(blockIdx.x)) {}
  __device__ __forceinline__ BlockPosition(const Arguments& args, const Tile& tile, int32_t block) {
    int32_t rest = block;
    const auto take = [&](int32_t count) {
      const int32_t number = rest % count;
      rest /= count;
      return number;
    };
    row = take(args.row_tiles) * tile.rows;
    tap = take(args.tap_tiles) * (tile.columns / args.chunk_channels);
    chunk = take(args.chunks);
    group = take(args.geometry.groups);
    split = rest;
  }

  // Whether the bias's sums of its channels are its own to make.
  __device__ __forceinline__ bool sums_bias(const Arguments& args) const {
    return args.geometry.has_bias_column && tap == args.bias_tap && chunk == 0;
  }

  // The filter's last row that the block has taps of.
  __device__ __forceinline__ int32_t last_tap_row(const Arguments& args, const Tile& tile) const {
    const Wgrad& g = args.geometry;
    const int32_t behind = min(tap + tile.columns / args.chunk_channels, g.taps.divisor);
    return g.taps_w_div.quotient(behind - 1);
  }
};

// The calling thread among those that copy and prepare.
template <Tile kTile>
__device__ __forceinline__ int32_t copy_thread() {
  return static_cast<int32_t>(this_thread()) - kTile.first_copy_thread();
}

// By how many pixels the steps of a row begin left of the bands.
__device__ __forceinline__ int32_t row_shift(const Arguments& args, int32_t y) {
  return y * static_cast<int32_t>(args.geometry.output.h) & args.shift_mask;
}

// A warp's share.
struct WarpPosition {
  int32_t number, row, lane;
  int32_t block_tap;       // the block's first, of the filter
  int32_t first_column;    // of the tile's
  int32_t chunk_channels;  // a power of two, of each tap
  int32_t first_channel;   // of the input, in the group

  __device__ __forceinline__ WarpPosition(const Arguments& args, const BlockPosition& at,
                                          const Tile& tile)
      : WarpPosition(args, at, tile, this_warp(), static_cast<int32_t>(this_thread()) % 32) {}
  __device__ __forceinline__ WarpPosition(const Arguments& args, const BlockPosition& at,
                                          const Tile& tile, int32_t number, int32_t lane)
      : number(number), lane(lane), chunk_channels(args.chunk_channels) {
    row = number / tile.warps_along_columns() * 64;
    block_tap = at.tap;
    first_column = number % tile.warps_along_columns() * tile.warp_columns();
    first_channel = at.chunk * chunk_channels;
  }

  // Whether the tile's last columns are among its own.
  __device__ __forceinline__ bool has_last_columns(const Tile& tile) const {
    return first_column + tile.warp_columns() == tile.columns;
  }
  // Of one of its columns: the tap, and the channel in the chunk.
  __device__ __forceinline__ int32_t tap_of(int32_t column) const {
    return block_tap + (first_column + column) / chunk_channels;
  }
  __device__ __forceinline__ int32_t channel_of(int32_t column) const {
    return (first_column + column) & (chunk_channels - 1);
  }
};

// A block's steps. In the first of a band, whose rows lie before those that the block multiplies,
// input rows are brought alone.
struct Walk {
  int32_t band;         // of all images'
  int32_t y;            // the output's row; in a band's first steps it may be negative
  int32_t first_steps;  // that are left before the next row is multiplied
  int32_t rows;         // that are left to multiply

  __device__ __forceinline__ Walk(const Arguments& args, int32_t split) {
    const int32_t row = split * args.split_rows;
    rows = min(args.split_rows, args.rows - row);
    band = args.band_rows.quotient(row);
    y = row - band * args.band_rows.divisor - args.first_rows;
    first_steps = args.first_rows;
  }

  __device__ __forceinline__ bool has_ended() const { return rows == 0; }
  __device__ __forceinline__ bool multiplies() const { return first_steps == 0; }

  // Whether the next step is in another band.
  __device__ __forceinline__ bool next(const Arguments& args) {
    ++y;
    if (first_steps > 0) {
      --first_steps;
      return false;
    }
    --rows;
    if (y < args.band_rows.divisor) return false;
    ++band;
    y = -args.first_rows;
    first_steps = args.first_rows;
    return true;
  }

  __device__ __forceinline__ int32_t image(const Arguments& args) const {
    return args.bands.quotient(band);
  }
  // The band's first of the output.
  __device__ __forceinline__ int32_t column(const Arguments& args, int32_t pixels) const {
    return (band - image(args) * args.bands.divisor) * pixels;
  }
};

}  // namespace haloconv::windows_wgrad
