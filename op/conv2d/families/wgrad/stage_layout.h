// Where a strip's pixels of grad_output lie in a stage of shared memory: tile_rows rows (output
// channels), each with the strip's segments.
//
//   brought by the load warps, each row:        | segment 0 | segment 1 | segment 2 | segment 3 |
//
//   brought by the copy engine, each segment:   | box 0 | box 1 | ...
//
// A box is tile_rows x box_columns. Its rows' 16-byte units are swizzled, so that 8 threads meet 8
// different groups of four banks.
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

// Cells of a row of a stage. The threads that read 16 bytes at one time, 8 of them, are of two
// rows and four segments: of 8, every other one, so that rows are one cell further apart.
HALOCONV_HOST_DEVICE inline int32_t Arguments::row_cells(int32_t in_strip) const {
  return in_strip * segment_cells + in_strip / 8;
}

// In boxes: where a row of a segment begins, bytes from the stage's start.
HALOCONV_HOST_DEVICE inline uint32_t Arguments::row_in_boxes(int32_t row,
                                                             int32_t segment_index) const {
  return segment_index * segment_bytes + (row << box_row_bits);
}

// What an address of shared memory swizzles the 16-byte units of its row with.
HALOCONV_HOST_DEVICE inline uint32_t Arguments::swizzle_at(uint32_t address) const {
  return (address >> 7 << 4) & ((1u << box_row_bits) - 1);
}

// From a row's beginning, what lies so many bytes along the segment.
HALOCONV_HOST_DEVICE inline uint32_t Arguments::in_boxes(uint32_t bytes, uint32_t swizzle) const {
  const uint32_t in_row = bytes & ((1u << box_row_bits) - 1);
  return (bytes >> box_row_bits) * box_bytes + (in_row ^ swizzle);
}

}  // namespace haloconv::wgrad
