// What follows from a tile and a patch for a problem: how a tile's columns lie in a stage, and how
// many tiles and patches there are.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last_wgrad/arguments.h"
#include "conv2d/geometry/tap_steps.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last_wgrad {

// What a tile's columns go through from one column warpgroup, instruction or chunk to the next.
enum class Along { kChannels, kTaps, kRows };

struct Columns {
  Along warpgroup, instruction, chunk;
};

// Pixels that a stage brings: 16 * k_steps() of them, in groups of eight. Neighbours in a group,
// and in shared memory, are of one of two sorts:
//   - Pixels of the same row. The patch has 8 columns, or 64 where grad_output has its rows
//     innermost, and images vary slowest.
//   - The same pixel of eight images. The patch has one row, whose columns vary slowest. Images are
//     often a multiple of 16 where rows are no multiple of 8, and beyond the last image the input
//     has no pixels that zeros of grad_output could meet.
struct Patch {
  int32_t columns = 8, rows = 1, images = 1;
  bool images_innermost = false;
  int32_t k_steps() const { return columns * rows * images / 16; }
};

// Whether grad_output has its rows innermost.
bool has_output_rows(const Conv2dProblem& problem);

// The pixels that the sum runs over, as the patches see them: all in one row, or as they are.
struct Pixels {
  int64_t q, p, n;
  Pixels(const Conv2dProblem& problem, bool flat);
};

struct Layout {
  Tile tile;
  Columns columns;
  Patch patch;
  bool flat;         // all pixels are one row
  bool output_rows;  // grad_output has its rows innermost

  int32_t tile_c, tile_s, tile_r;    // channels, taps and rows of taps of a tile
  TapSteps steps_s, steps_r;         // from one of its taps, or rows, to the next
  int32_t box_w, box_h;              // of the input
  int32_t grad_output_bytes;         // of a box
  int32_t input_bytes, input_boxes;  // of a box, and how many
  int32_t copied_bytes;              // of a stage, less what aligns its boxes
  int32_t group_bytes, row_bytes;    // from eight pixels, and a row, of the input to the next
  ColumnAxes axes;
  int64_t tiles_of_k, tiles_of_c, tiles_of_s, tiles_of_r;
  int64_t strips, bands, patches;
  // The groups of eight pixels that grad_output has, of which the last may be incomplete.
  GroupCounts groups;
  // Where rows end amid eight pixels. Beyond the last image, and the last of all pixels in one row,
  // the input has no pixels either.
  RowEndPlaces row_ends;
  // Of zeros that stand for the group after an odd one; 0 where groups are even.
  int32_t zero_bytes;

  Layout(const Conv2dProblem& problem, const Tile& of_tile, const Columns& of_columns,
         const Patch& of_patch, bool is_flat);

  int64_t stage_bytes() const {
    return int64_t{tile.row_warpgroups} * grad_output_bytes + int64_t{input_boxes} * input_bytes;
  }
  int64_t tiles() const { return tiles_of_k * tiles_of_c * tiles_of_s * tiles_of_r; }
  // Whether the bias's gradient is summed by products with ones, not by additions.
  bool multiplies_for_bias() const { return tile_s * tile_r == 1; }
};

}  // namespace haloconv::sm90::channels_last_wgrad
