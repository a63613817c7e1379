// The same product without strides, for few destination channels: each source row is brought once,
// and multiplied at once with all rows of the filter.
//
// A strip is some columns of the destination, of one image or of several. A block goes down a strip
// and keeps the sums of those destination rows that the source row at hand meets, as many as the
// filter has rows. An instruction multiplies 64 pixels of it with a column of the filter: with
// (filter rows x channels) numbers side by side, so that a pixel is read from shared memory once
// for all of them. After each source row the eldest sums are results, the others move up, and new
// ones begin at 0. With dilation a strip has only rows that are a multiple of it apart. All of the
// filter stays in shared memory: where it is too large, or a tile has too few channels, some blocks
// go down the same strip, each with a tile of channels.
//
// Each warpgroup has 64 matrix rows: 64 columns, or of narrow images the columns of some images one
// after the other, with those of the window between them, which are no results.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/channels_last/arguments.h"

namespace haloconv::sm90::channels_last {

struct OrderedPhases;  // phases.h

// A tile of one row of a strip, and of how many rows there are sums at once.
struct StripTile {
  int rows;
  Tile tile;

  constexpr bool operator==(const StripTile&) const = default;
};

// Of each depth the widest first.
inline constexpr StripTile kStripTiles[] = {
    {3, {128, 64, 64}},    {3, {128, 32, 64}},    {3, {128, 16, 64}},    {5, {128, 32, 32}},
    {5, {128, 32, 64}},    {3, {128, 64, 32, 4}}, {3, {128, 32, 32, 4}}, {3, {128, 16, 32, 4}},
    {5, {128, 32, 32, 4}}, {5, {128, 16, 32, 4}}};

inline constexpr int kMaxStripStages = 12;

// Rows of a strip that a block computes one after the other.
struct StripPart {
  int32_t image, column;  // the first of the strip
  int32_t row, rows;      // the first, and how many
};

// What a matrix row is the result of.
struct StripPixel {
  bool exists;
  int32_t image, column;
};

struct StripArguments {
  Results results;
  int64_t destination_n, destination_h, destination_w;  // elements between pixels
  int32_t images, height, width;                        // of the destination
  int32_t strip_images, strip_columns;
  int32_t group_images, group_columns;  // from a warpgroup's pixels to the next's
  FastDiv image_pitch;                  // matrix rows from an image's to the next's
  int32_t row_images, image_columns;    // images of a warpgroup, and an image's results
  // Strips are numbered through: columns, then rows that dilation keeps apart, then images.
  FastDiv strip_rows, column_strips, row_step;
  int32_t rows, block_rows;  // of all strips, and those that a block computes
  // Blocks of the same rows follow each other, each with a tile of channels.
  FastDiv channel_tiles;

  int32_t first_h, first_w;  // the source pixel that pixel (0, 0) meets by its least offset
  int32_t chunks;            // of source channels
  int32_t taps_h, taps_w;
  bool is_mirrored;      // the filter's last tap has the least offset
  int32_t tap_bytes;     // of the window, from a tap to the next
  int32_t group_bytes;   // of the window, from a warpgroup's pixels to the next's
  int32_t window_bytes;  // copied
  int32_t window_pitch;  // from one to the next in shared memory
  int32_t filter_bytes;  // all of the filter stays in shared memory
  int32_t stages;        // windows of a chunk

  HALOCONV_HOST_DEVICE int32_t first_row_of(int32_t block) const {
    return channel_tiles.quotient(block) * block_rows;
  }
  HALOCONV_HOST_DEVICE int32_t end_of(int32_t block) const {
    const int32_t end = first_row_of(block) + block_rows;
    return end < rows ? end : rows;
  }
  HALOCONV_HOST_DEVICE int32_t channel_tile_of(int32_t block) const {
    return block - channel_tiles.quotient(block) * channel_tiles.divisor;
  }
  // Rows from number `first` on that lie in one strip, and before `end`.
  HALOCONV_HOST_DEVICE StripPart part(int32_t first, int32_t end) const {
    const int32_t strip = strip_rows.quotient(first), in_strip = first - strip * strip_rows.divisor;
    const int32_t above = column_strips.quotient(strip), images_before = row_step.quotient(above);
    const int32_t left = strip_rows.divisor - in_strip;
    return {.image = images_before * strip_images,
            .column = (strip - above * column_strips.divisor) * strip_columns,
            .row = above - images_before * row_step.divisor + in_strip * row_step.divisor,
            .rows = left < end - first ? left : end - first};
  }
  HALOCONV_HOST_DEVICE StripPixel pixel(const StripPart& of, int32_t group,
                                        int32_t matrix_row) const {
    const int32_t in_group = image_pitch.quotient(matrix_row);
    const int32_t in_image = matrix_row - in_group * image_pitch.divisor;
    const int32_t image = of.image + group * group_images + in_group;
    const int32_t column = of.column + group * group_columns + in_image;
    const bool is_result = in_group < row_images && in_image < image_columns;
    return {is_result && image < images && column < width, image, column};
  }
};

struct StripLaunch {
  StripArguments args{};
  int32_t sum_rows;  // StripTile::rows
  int32_t box[4];    // channels, columns, rows, images of a copy
  int32_t blocks;
  int32_t shared_bytes;
};

// None where strips do not serve: strides, a filter of other rows than the tile's or one fewer, one
// that does not fit in shared memory beside two windows, destination channels that another tile
// suits.
std::optional<StripLaunch> make_strip_launch(const Conv2dProblem& problem,
                                             const OrderedPhases& ordered, const StripTile& of,
                                             int multiprocessors);

}  // namespace haloconv::sm90::channels_last
