// What a plan comes to for one problem: plain numbers, made on the host, tested without a GPU.
//
// A period is stride_h x stride_w pixels of the result between two pixels of the source: with
// periods placed so that their first pixel meets the filter's first row and column, pixel (a, b) of
// period (i, j) meets, by each shift (u, v), the source u rows and v columns before the period's
// own pixel, by the filter's tap (a + u * stride_h, b + v * stride_w). So dgrad is a matrix product
// of source pixels and filter with a column for each channel and pixel of a period, added over the
// shifts.
//
// Periods and source pixels are counted in one flat order of positions, images x rows x columns,
// with zeros between rows and images where shifts leave the source: a shift is a distance in that
// order, and a tile is any so many periods that follow each other.
//
// Groups are products of their own, or together one, with weights of zero between them.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/all_phases/plan.h"
#include "conv2d/families/all_phases/weight_flags.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::all_phases {

inline constexpr int kMathGroups = 2;  // of 128 threads; a third brings the operands
inline constexpr int kThreads = (kMathGroups + 1) * 128;
inline constexpr int kMaxStages = 8;
inline constexpr int kMostStride = 16;    // a period's rows, and its columns, are bits of 16
inline constexpr int kChunkUnits = 4;     // of 16 bytes: a pixel's channels of a chunk
inline constexpr int kSliceColumns = 16;  // that a warp writes at a time
inline constexpr int kSlicePitch = 20;    // floats, of its 16 periods

// How one axis is cut into periods, and where the source lies among the positions.
struct Axis {
  int32_t stride, taps;  // taps: the filter's extent
  int32_t pad;           // in front
  int32_t shifts;        // how many source positions a period meets
  int32_t periods;
  int32_t first;      // the pixel of the result where period 0 begins: 0 or less
  int32_t extent;     // of the result
  int32_t positions;  // from one row, or image, to the next
  int32_t source_at;  // the source's first position
  int32_t source_extent;
};

// A column of a product.
struct ColumnOf {
  int32_t channel, row, column;  // of the product's result, and of the period
};

// Which columns a column tile has: those of a product from `first` on.
struct TileColumns {
  int32_t product, first;
};

struct Arguments {
  const void* source;  // set for the launch, as are all pointers
  const void* filter;
  const void* packed;   // the filter
  void* packed_source;  // or null
  const void* bias;     // or null
  void* destination;
  Fusion fusion;
  bool is_fused;  // anything but a bias

  Axis h, w;
  FastDiv row_positions, image_positions;  // positions of a row, rows of an image
  FastDiv stride_h, stride_w, channels;    // channels: of a product's result
  int32_t images, source_channels;         // source_channels: of a product
  FastDiv group_channels, group_sources;   // channels of a group: of the result, and of the source
  bool channels_innermost;                 // of the result: the order of the product's columns
  bool reads_units;                        // the source's channels are read 16 bytes at a time
  int64_t source_n, source_c, source_h, source_w;                      // strides
  int64_t destination_n, destination_c, destination_h, destination_w;  // strides
  int64_t filter_k, filter_c, filter_r, filter_s;                      // strides
  int32_t columns;                                                     // of a product
  // Whether some columns of a product meet no tap by some of the shifts; or by any: idle ones.
  bool has_gaps, has_idle_columns;
  bool writes_pairs;  // two columns are neighbours in memory, if the address allows
  int32_t log2_run;   // columns of a slice that are neighbours in memory, period by period
  int32_t chunks;     // of a product's source channels
  int32_t stages;
  int32_t window;                                   // positions of a tile's window
  int32_t window_bytes, filter_bytes, stage_bytes;  // of a stage
  FastDiv column_tiles, product_tiles;              // product_tiles: column tiles of a product
  int32_t tiles;
  int64_t packed_bytes;      // of the filter, and of the flags behind it
  int64_t flags_at;          // a byte for each column and unit of channels: weight_flags.h
  int32_t packed_positions;  // of the source, all that windows have; 0 where it is not packed

  HALOCONV_HOST_DEVICE TileColumns columns_of(int32_t column_tile, int32_t tile_columns) const {
    const int32_t product = product_tiles.quotient(column_tile);
    return {product, (column_tile - product * product_tiles.divisor) * tile_columns};
  }
  HALOCONV_HOST_DEVICE ColumnOf column_of(int32_t number) const {
    ColumnOf of;
    if (channels_innermost) {
      const int32_t pixel = channels.quotient(number);
      of.channel = number - pixel * channels.divisor;
      of.row = stride_w.quotient(pixel);
      of.column = pixel - of.row * stride_w.divisor;
    } else {
      const int32_t line = stride_w.quotient(number);
      of.column = number - line * stride_w.divisor;
      of.channel = stride_h.quotient(line);
      of.row = line - of.channel * stride_h.divisor;
    }
    return of;
  }
};

// None where a tile does not fit.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Tile& tile);

// Of the packed source, whose 16-byte units of channels each have all positions.
int64_t packed_source_bytes(const Arguments& args);

// The part of shared memory that is beside the stages: the tables of columns and periods, the
// slices, the columns' flags and the barriers.
constexpr int64_t beside_stages(const Tile& tile) {
  return int64_t{kMathGroups} * 4 * (kSliceColumns * kSlicePitch * 4 + 16 * 16) +
         kMathGroups * (tile.columns * 16 + (takes_lone_weights(tile.columns) ? 48 : 0)) +
         2 * kMaxStages * 8;
}
int64_t shared_bytes(const Arguments& args, const Tile& tile);

// How many blocks share a launch's tiles, at most `most`; a block's tiles lie as far apart. That is
// a number by which a block's column tiles are different ones, if there is one: where a weight is
// not finite, the results of its column tile are then repaired by all blocks, and not by a few.
int32_t blocks_of(const Arguments& args, const Tile& tile, int32_t most);

}  // namespace haloconv::all_phases
