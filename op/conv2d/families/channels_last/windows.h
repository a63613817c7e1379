// The same product without strides, where a block keeps the source pixels that all taps of a tile
// meet, its window, in shared memory: a tap is a shift of the operand's address, so that each pixel
// is brought once for all taps and not once for each.
//
// A tile is 2 or 4 blocks of 64 matrix rows. A block is a rectangle of destination pixels of one
// image, at most 64. Its window is (rows + halo) x (columns + halo) source pixels of the tile's
// depth, 128 bytes each or fewer, row by row: its own, or where a halo is so large that two such do
// not fit, a part of one that all blocks of the tile share, which lie side by side or one below
// another then. Its 64 matrix rows are eight groups of eight window pixels side by side, a fixed
// distance apart:
//
//   columns = 8:  group i is row i of the block; rows <= 8, no matrix row is wasted
//   else:         group i follows group i - 1 in the window, so that matrix rows run on from one
//                 row of the block into the next; those over the halo between are wasted
//
// The swizzle is a function of a shared-memory address alone, so an operand may start at any pixel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "conv2d/families/channels_last/arguments.h"

namespace haloconv::sm90::channels_last {

struct OrderedPhases;  // phases.h

inline constexpr int kBlockPixels = 64;  // matrix rows of a block
inline constexpr int kMaxBlocks = 4;     // of a tile
inline constexpr int kMaxWindowStages = 8, kMaxFilterStages = 16;

// Where a block begins in the destination.
struct BlockPlace {
  int32_t image, row, column;
};

struct WindowArguments {
  Results results;
  int64_t destination_n, destination_h, destination_w;  // elements between pixels
  int32_t height, width;                                // of the destination
  int32_t blocks;                                       // of 64 matrix rows
  FastDiv row_boxes, column_boxes;                      // boxes of an image, along each axis
  int32_t block_rows, block_columns;                    // destination pixels of a block
  FastDiv block_pitch;  // matrix rows from a row of the block to the next

  int32_t first_h, first_w;  // the source pixel that pixel (0, 0) meets by its least offset
  int32_t chunks;            // of source channels
  int32_t taps_h, taps_w;
  int32_t first_tap_bytes;  // from a window's start to what the first tap of pixel 0 meets
  int32_t tap_row_bytes, tap_column_bytes;  // from a tap to the next
  int32_t group_bytes;                      // from a group of eight matrix rows to the next

  int32_t boxes;                  // copies that bring a tile's windows
  int32_t log2_box_blocks;        // blocks that share one
  int32_t box_rows, box_columns;  // destination pixels that they have together
  int32_t box_bytes;              // copied
  int32_t box_pitch;              // from one to the next in shared memory
  // Of each block of a tile: its first pixel in its box, and bytes from the tile's first window.
  int32_t row_in_box[kMaxBlocks], column_in_box[kMaxBlocks];
  int32_t windows[kMaxBlocks];
  int32_t window_stages, filter_stages;
  int32_t prefetched_windows;  // prefetch.h
  bool resident;  // the filter's ring holds all that a block's tiles need: it is brought once
  bool is_flat;   // WindowLaunch::flat
  // The threads that multiply put it there (laid_filter.h), from where it begins in memory.
  bool lays_filter;
  const void* filter;
  int64_t filter_step;  // elements from one row of it to the next
  int32_t source_channels;

  int32_t tiles;
  FastDiv channel_tiles;

  // Blocks to launch, of which `room` run at once. A block's next tile is so many further: where
  // its filter stays, that is one of the same channels.
  int32_t grid(int32_t room) const {
    const int32_t all = std::min(tiles, room);
    return resident ? all - all % channel_tiles.divisor : all;
  }

  // Where a block of a tile lies; `first` is the tile's first block. Blocks beyond the last lie in
  // images that do not exist.
  HALOCONV_HOST_DEVICE BlockPlace place_of(int32_t first, int32_t block) const {
    const int32_t box = (first + block) >> log2_box_blocks, rows = column_boxes.quotient(box);
    const int32_t image = row_boxes.quotient(rows);
    return {image, (rows - image * row_boxes.divisor) * box_rows + row_in_box[block],
            (box - rows * column_boxes.divisor) * box_columns + column_in_box[block]};
  }
};

struct WindowLaunch {
  WindowArguments args{};
  int32_t box[4];     // channels, columns, rows, images of a copy
  bool flat = false;  // the source is one row of pixels: a single tap, nothing between rows
  bool copies_residual = false;  // the copy engine takes a residual and results too
  int32_t shared_bytes;
};

// None where windows do not serve: strides, or a window too large.
std::optional<WindowLaunch> make_window_launch(const Conv2dProblem& problem, Direction direction,
                                               const OrderedPhases& ordered, const Tile& tile,
                                               int multiprocessors);

}  // namespace haloconv::sm90::channels_last
