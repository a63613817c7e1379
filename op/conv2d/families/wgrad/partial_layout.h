// Where partial sums lie in the workspace. Each split, and with Share::kPixels each of its two
// warpgroups, has a partial: a value for every element of the filter, padding included.
//
//   partial > group > row group (64 output channels) > column tile   = fragment, a warpgroup's sums
//   fragment > matrix instruction > 8 columns > thread (128) > 4 values
//
// With Share::kColumns a fragment has the sums of both warpgroups, one after the other.
//
// The 4 values are what a thread holds of 8 columns: two neighbouring columns of one row, and the
// same of the row 8 further. A thread reads and writes only its own.
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

// Partial sums: 64 rows of a block's columns are a fragment, of 8 columns times 4 values for each
// thread. The fragments of one partial sum follow each other, as partial sums do.
HALOCONV_HOST_DEVICE inline int32_t Arguments::fragment_floats() const {
  return block_instructions() * width * kRowsOfGroup;
}

HALOCONV_HOST_DEVICE inline int64_t Arguments::partial_floats() const {
  return int64_t{groups} * row_groups() * column_tiles() * fragment_floats();
}

HALOCONV_HOST_DEVICE inline int64_t Arguments::bias_floats() const {
  return int64_t{groups} * row_groups() * kRowsOfGroup;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::partial_index(const Block& b,
                                                             int32_t math_group) const {
  return share == Share::kPixels ? b.split * kMathGroups + math_group : b.split;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::row_group_of(const Block& b,
                                                            int32_t math_group) const {
  return share == Share::kChannels ? b.row_tile * kMathGroups + math_group : b.row_tile;
}

// The filter's element of which value `index` of a partial is the sum.
HALOCONV_HOST_DEVICE inline FilterElement Arguments::element(int64_t index) const {
  const int64_t fragment = index / fragment_floats();
  const auto in_fragment = static_cast<int32_t>(index % fragment_floats());
  const auto row_group = static_cast<int32_t>(fragment / column_tiles());
  const int32_t group = row_group / row_groups();
  const int32_t thread = in_fragment / 4 % 128, value = in_fragment % 4;
  const int32_t eighth = in_fragment / 512 % (width / 8), slot_index = in_fragment / 64 / width;
  const int32_t row =
      row_group % row_groups() * kRowsOfGroup + thread / 32 * 16 + thread % 32 / 4 + value / 2 * 8;
  const int32_t column = eighth * 8 + thread % 4 * 2 + value % 2;
  Block b;
  set_columns(b, static_cast<int32_t>(fragment % column_tiles()));
  const MmaColumns s = mma_columns(b, slot_index);
  FilterElement e;
  e.k = group * rows + row;
  e.c = s.group * mma_channels + column % mma_channels;
  e.r = s.run / runs_of_row();
  e.s = filter_column(s.run, column / mma_channels);
  e.exists = !s.idle && row < rows && e.c < channels && e.s < taps_w;
  return e;
}

}  // namespace haloconv::wgrad
