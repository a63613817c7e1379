// The gradients of filter and bias by windows of the input: grad_filter (output channels x
// columns) = grad_output (output channels x pixels) * input (pixels x columns). A column is a
// channel of the input at a tap. A block has some output channels and some taps of a chunk of the
// channels.
//
// The output's images are cut into bands of a step's columns, and a block walks some bands' rows,
// one after the other. A step is one row: its pixels are what the matrix instruction sums over, in
// both operands as they lie in memory. Of the input a step brings one row of a window, the last
// that its taps meet, into a ring that holds those of the steps before. At the beginning of a band
// some steps bring rows alone.
//
//   step        0    1    2    3    4        of a filter of three rows
//   input row   0    1    2    3    4        into the ring
//   multiplied  -    -   0..2 1..3 2..4      with grad_output's row 0, 1, 2
//
// Blocks share the rows out among them. Each leaves its sums in the workspace, and a second
// kernel adds them in the order of the splits, so that results repeat bit for bit.
#pragma once

#include <optional>

#include "conv2d/families/implicit_gemm/windows_wgrad/tile.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/problem.h"

namespace haloconv::windows_wgrad {

struct Arguments {
  const void* input;
  const void* grad_output;
  float* partial;  // each block's tile, as its threads hold it; behind these bias_at
  Wgrad geometry;
  int32_t pieces;                              // of a step: 1 to 4
  int32_t grad_output_granule, input_granule;  // bytes that one copy brings of a row
  // A row's steps begin so many pixels left of its bands that copies of grad_output begin at whole
  // granules: the row's first element in memory, masked by this. 0 where rows do anyway.
  int32_t shift_mask;
  int32_t input_granules;  // of a channel's row of a window
  int32_t log_threads;     // that bring it
  int32_t left_columns;    // by which a window begins further left than its taps need
  int32_t line;            // bytes of a channel's row, in the ring
  // 16-bit elements that begin in the midst of a word are read from a second copy of the row, one
  // element further left.
  int32_t copies;
  int32_t input_rows, stages;  // in the ring; steps of grad_output
  int32_t copy_bytes, input_row_bytes, ring_bytes;
  int32_t next_row;  // bytes from a step's last piece to the next step's first, in the ring
  // The first tap of the blocks that sum the bias, those of the first chunk. As products: the
  // tile's last columns are none of the filter's, and meet a line of ones in each row of the ring.
  // Else the threads that copy sum it, to a part of the workspace: (split, group, row).
  int32_t bias_tap;
  bool bias_is_product;
  int32_t ones_at;  // in a row of the ring, in bytes
  int64_t bias_at;  // in the workspace, in floats
  int32_t chunk_channels, chunks;
  int32_t row_tiles, tap_tiles;
  FastDiv bands;                     // of an image
  FastDiv band_rows;                 // the output's
  int32_t first_rows;                // steps at the beginning of a band that bring rows alone
  int32_t rows, split_rows, splits;  // rows of all bands

  // Of a split.
  HALOCONV_HOST_DEVICE int64_t tiles() const {
    return int64_t{geometry.groups} * chunks * tap_tiles * row_tiles;
  }
  HALOCONV_HOST_DEVICE int64_t blocks() const { return splits * tiles(); }
  HALOCONV_HOST_DEVICE int64_t all_rows() const { return int64_t{geometry.groups} * geometry.rows; }
  // Floats of the workspace for a split.
  int64_t split_elements(const Tile& tile) const {
    const bool has_bias = geometry.has_bias_column && !bias_is_product;
    return tiles() * tile.elements() + (has_bias ? all_rows() : 0);
  }
};

// All but pointers; nothing where whole copies of 4 bytes or more cannot bring the rows.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, bool with_bias,
                                        const Tile& tile, int pieces, int chunk_channels,
                                        int stages, int64_t splits);

int shared_bytes(const Tile& tile, const Arguments& args);

}  // namespace haloconv::windows_wgrad
