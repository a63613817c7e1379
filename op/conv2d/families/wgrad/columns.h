// How the filter's elements (r, s, c) of a group are numbered as columns of the matrix product.
//
// Taps of a filter row whose input columns differ by whole column strides are a class. Within a
// class, neighbouring taps are `shift_step` cells apart, so that a run of them is read from one
// window by shifting the operand's descriptor.
//
//   filter row, stride_w 2, dilation_w 1:   s = 0 1 2 3 4     class 0: s = 0 2 4
//                                                             class 1: s = 1 3
//
// One matrix instruction has `width` columns: mma_taps taps of a run times mma_channels channels.
// A block has block_instructions() of them: tile_runs runs times tile_groups groups of channels.
//
//   column tile of a block (4 instructions, tile_runs = 2, tile_groups = 2)
//
//                   channels 0..c-1     channels c..2c-1      c = mma_channels
//     run 0       | instruction 0     | instruction 1     |
//     run 1       | instruction 2     | instruction 3     |
//
//   columns of an instruction (mma_taps = 3):   tap 0, all c | tap 1, all c | tap 2, all c
//
// Runs are numbered (filter row, class, run of the class); column tiles (tile of runs, tile of
// channels).
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

HALOCONV_HOST_DEVICE inline int32_t Arguments::column_tiles() const {
  return run_tiles * channel_tiles;
}
HALOCONV_HOST_DEVICE inline int32_t Arguments::runs_of_row() const {
  return classes * runs_of_class;
}
// Sets what depends on the column tile.
HALOCONV_HOST_DEVICE inline void Arguments::set_columns(Block& b, int32_t column_tile) const {
  b.column_tile = column_tile;
  b.first_group = column_tile % channel_tiles * tile_groups;
  b.first_run = column_tile / channel_tiles * tile_runs;
  b.runs = tile_runs < runs - b.first_run ? tile_runs : runs - b.first_run;
  b.first_row = b.first_run / runs_of_row();
  b.rows = (b.first_run + b.runs - 1) / runs_of_row() - b.first_row + 1;
}

HALOCONV_HOST_DEVICE inline MmaColumns Arguments::mma_columns(const Block& b, int32_t index) const {
  const int32_t run = index / tile_groups;
  return {b.first_run + run, b.first_group + index % tile_groups, run >= b.runs};
}

// Cells from 8 columns of an instruction to the next 8. Channels of a tap follow each other; with
// more taps, either 8 channels make each, or the next tap's cells follow the last channel.
HALOCONV_HOST_DEVICE inline int32_t Arguments::column_stride() const {
  return mma_channels == 8 ? 8 * shift_step : 8;
}

// Cells from an instruction's first to the end of its last, of one pixel.
HALOCONV_HOST_DEVICE inline int32_t Arguments::mma_cells() const {
  return (width / 8 - 1) * column_stride() + 8;
}

// The filter's column of a tap of a run; taps_w or more: there is none.
HALOCONV_HOST_DEVICE inline int32_t Arguments::filter_column(int32_t run,
                                                             int32_t tap_of_run) const {
  const int32_t in_row = run % runs_of_row();
  return in_row / runs_of_class + (in_row % runs_of_class * mma_taps + tap_of_run) * class_step;
}

// How many times 64 output channels a group has.
HALOCONV_HOST_DEVICE inline int32_t Arguments::row_groups() const {
  return row_tiles * (share == Share::kChannels ? kMathGroups : 1);
}

// Matrix instructions of a block's columns, and the first of a warpgroup's.
HALOCONV_HOST_DEVICE inline int32_t Arguments::block_instructions() const {
  return share == Share::kColumns ? kMathGroups * instructions : instructions;
}
HALOCONV_HOST_DEVICE inline int32_t Arguments::first_instruction_of(int32_t math_group) const {
  return share == Share::kColumns ? math_group * instructions : 0;
}

// Whether a warpgroup sums its rows of grad_output: of those that have them, one block's.
HALOCONV_HOST_DEVICE inline bool Arguments::sums_rows(const Block& b, int32_t math_group) const {
  return bias_partial != nullptr && b.column_tile == 0 && first_instruction_of(math_group) == 0;
}

// Strips follow each other slowest, so that blocks that run at one time read the same pixels.
HALOCONV_HOST_DEVICE inline int64_t Arguments::blocks() const {
  return int64_t{groups} * splits * row_tiles * column_tiles();
}

HALOCONV_HOST_DEVICE inline Block Arguments::block(uint32_t index) const {
  Block b;
  set_columns(b, static_cast<int32_t>(index % column_tiles()));
  index /= column_tiles();
  b.row_tile = static_cast<int32_t>(index % row_tiles);
  index /= row_tiles;
  b.split = static_cast<int32_t>(index % splits);
  b.group = static_cast<int32_t>(index / splits);
  return b;
}

// Planes of a line, and its bundles of lane_channels().
HALOCONV_HOST_DEVICE inline int32_t Arguments::planes() const { return tile_groups * classes; }
HALOCONV_HOST_DEVICE inline int32_t Arguments::bundles() const {
  return planes() * (mma_channels / lane_channels(input_vector));
}

}  // namespace haloconv::wgrad
