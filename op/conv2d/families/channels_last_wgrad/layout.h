// What follows from a plan's tile and patch for a problem: how a tile's columns lie in a stage, and
// how many tiles and patches there are.
#pragma once

#include <cstdint>

#include "conv2d/families/channels_last_wgrad/arguments.h"
#include "conv2d/families/channels_last_wgrad/plan.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last_wgrad {

// The pixels that the sum runs over, as the patches see them: all in one row, or as they are.
struct Pixels {
  int64_t q, p, n;
  Pixels(const Conv2dProblem& problem, bool flat);
};

struct Layout {
  int32_t tile_c, tile_s, tile_r;    // channels, taps and rows of taps of a tile
  int32_t box_w, box_h;              // of the input
  int32_t grad_output_bytes;         // of a box
  int32_t input_bytes, input_boxes;  // of a box, and how many
  int32_t copied_bytes;              // of a stage, less what aligns its boxes
  int32_t group_bytes;               // from eight pixels of the input to the next
  ColumnAxes axes;
  int64_t tiles_of_k, tiles_of_c, tiles_of_s, tiles_of_r;
  int64_t strips, bands, patches;

  Layout(const Conv2dProblem& problem, const Tile& tile, const Columns& columns, const Patch& patch,
         bool flat);

  int64_t stage_bytes(const Tile& tile) const {
    return int64_t{tile.row_warpgroups} * grad_output_bytes + int64_t{input_boxes} * input_bytes;
  }
  int64_t tiles() const { return tiles_of_k * tiles_of_c * tiles_of_s * tiles_of_r; }
};

}  // namespace haloconv::sm90::channels_last_wgrad
