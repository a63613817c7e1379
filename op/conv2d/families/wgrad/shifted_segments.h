// Where rows of grad_output begin at 4 or 8 bytes of 16, as rows of 1022 floats do, copies of 16
// bytes would need the pixels before a segment or after it. Instead whole segments shift to where
// 16 bytes begin (or 8, if not all of a row's channels begin alike), by another number of columns
// in each row, and a row's short segment has what is left at both ends. Rows of 26 floats, segments
// of 8, shift by 0 or 2:
//
//   row 0    | whole 0         | whole 1         | whole 2         | short |
//   row 1    | s | whole 0         | whole 1         | whole 2         | s |
//
// Lines of the input's window serve several rows, so they stay where they are: a step's shift is
// one of the operand's descriptor, and lines have most_shift columns more. Lines of short segments
// begin with the input's columns that pixels of the row's beginning meet, left_part of them:
//
//   pixels of a short segment, shift 2     q = 0 1 | 24 25
//   its lines                              x = 0 1 2 3 | 22 23 24 25 ...     left_part = 4
//
// A shift is an even number of columns less than a vector's, so that each step of the mainloop has
// one place, and only steps of a strip's first load read the left part.
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

// By how many columns the whole segments of a walk's step are shifted to the right: the same for
// all segments of a strip.
HALOCONV_HOST_DEVICE inline int32_t Arguments::shift_of(int32_t step) const {
  const uint32_t shift = static_cast<uint32_t>(step) * static_cast<uint32_t>(row_shift);
  return static_cast<int32_t>(shift) & (whole_vector - 1);
}

// The column q of a segment's pixel in a step with that shift.
HALOCONV_HOST_DEVICE inline int32_t Arguments::pixel_column(const Segment& at, int32_t pixel,
                                                            int32_t shift) const {
  if (at.column < whole_segments * segment) return at.column + shift + pixel;
  return pixel < shift ? pixel : at.column + pixel;
}

// Columns of the input from a short line's left part to where the rest would begin, were it there.
HALOCONV_HOST_DEVICE inline int32_t Arguments::left_part_step() const {
  return whole_segments * segment - left_part;
}

}  // namespace haloconv::wgrad
