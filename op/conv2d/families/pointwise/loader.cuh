// Chunks of both operands of a block's tiles, one after the other, across tiles.
#pragma once

#include <cstdint>

#include "conv2d/families/pointwise/arguments.h"
#include "conv2d/families/pointwise/operand.cuh"

namespace haloconv::pointwise {

// A tile's first destination channel (of the group) and pixel. Tiles that share pixels are
// neighbours.
struct Position {
  int32_t group, row, pixel;

  __device__ __forceinline__ Position(const Arguments& args, const Tile& tile, int32_t index) {
    const int32_t above = args.row_tiles_div.quotient(index);  // (pixel tile, group)
    row = (index - above * args.row_tiles) * tile.rows;
    const int32_t pixel_tile = args.groups_div.quotient(above);
    group = above - pixel_tile * args.groups;
    pixel = pixel_tile * tile.columns;
  }
};

template <int kRows, int kColumns, bool kDgrad>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Arguments& args, uint32_t shared, int32_t thread)
      : args_(args),
        filter_place_(thread, args.filter_unit),
        pixel_place_(thread, args.pixel_unit),
        stages_(shared),
        tile_(static_cast<int32_t>(blockIdx.x)) {}

  // The next chunk, if there is one.
  __device__ __forceinline__ void load() {
    if (depth_ <= 0) {
      if (tile_ >= args_.tiles) return;
      begin_tile();
    }
    const uint32_t stage = stages_.next();
    with_unit(args_.filter_unit, [&]<int kUnit>() {
      copy_rows<kFilterRows, kFilterColumns, kUnit, values_of(kTile)>(
          stage, filter_place_, filter_, args_.filter_k, kDgrad ? depth_ : rows_,
          filter_place_.column < (kDgrad ? rows_ : depth_));
    });
    with_unit(args_.pixel_unit, [&]<int kUnit>() {
      copy_rows<kDepth, kColumns, kUnit, values_of(kTile)>(
          stage + kRows * kDepth * 2, pixel_place_, source_, args_.source_c, depth_, is_pixel_);
    });
    filter_ += kDgrad ? kDepth * args_.filter_k : kDepth;
    source_ += kDepth * args_.source_c;
    depth_ -= kDepth;
  }

 private:
  static constexpr Tile kTile = {kRows, kColumns};
  // The filter's part of a chunk, as it lies in global memory.
  static constexpr int kFilterRows = kDgrad ? kDepth : kRows;
  static constexpr int kFilterColumns = kDgrad ? kRows : kDepth;

  __device__ __forceinline__ void begin_tile() {
    const Position at(args_, Tile{kRows, kColumns}, tile_);
    tile_ += static_cast<int32_t>(gridDim.x);
    depth_ = args_.depth;
    rows_ = args_.rows - at.row;
    const int64_t first_k =
        int64_t{at.group} * (kDgrad ? args_.depth : args_.rows) + (kDgrad ? 0 : at.row);
    filter_ = static_cast<const uint16_t*>(args_.filter) +
              (first_k + filter_place_.row) * args_.filter_k + (kDgrad ? at.row : 0) +
              filter_place_.column;
    const Pixel pixel(args_.pixels, args_.image_pixels, at.pixel + pixel_place_.column);
    is_pixel_ = pixel.exists;
    source_ = static_cast<const uint16_t*>(args_.source) +
              (int64_t{at.group} * args_.depth + pixel_place_.row) * args_.source_c +
              pixel.image * args_.source_n + pixel.in_image;
  }

  const Arguments& args_;
  const Place<kFilterColumns> filter_place_;
  const Place<kColumns> pixel_place_;
  Ring<stages_of(kTile), chunk_bytes(kTile)> stages_;
  int32_t tile_;       // to begin next
  int32_t depth_ = 0;  // of the tile, that is not loaded yet
  int32_t rows_;       // of the tile's that exist
  bool is_pixel_;
  const uint16_t *filter_, *source_;
};

}  // namespace haloconv::pointwise
