// A unit is 16 output channels of 8 columns (taps and input channels): what a warp has of 8
// columns, 128 values that follow each other in a partial sum. Its columns are of one tap, its rows
// of one group.
//
//   lane 0:   row 0, column 0 | row 0, column 1 | row 8, column 0 | row 8, column 1
//   lane 1:   row 0, column 2 | row 0, column 3 | row 8, column 2 | row 8, column 3
//   ...
//   lane 4:   row 1, column 0 | row 1, column 1 | row 9, column 0 | row 9, column 1
#pragma once

#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

inline constexpr int kUnitRows = 16;
inline constexpr int kUnitColumns = 8;
inline constexpr int kUnitFloats = kUnitRows * kUnitColumns;

// The element so many rows and columns after another one of the unit. Cheaper than
// Arguments::element(), which divides.
HALOCONV_HOST_DEVICE inline FilterElement element_after(const Arguments& args,
                                                        const FilterElement& from, int32_t rows,
                                                        int32_t columns) {
  FilterElement e = from;
  e.column += columns;
  e.k += rows;
  e.c += columns;
  e.exists = from.exists && from.k % args.rows + rows < args.rows && e.c < args.channels;
  return e;
}

}  // namespace haloconv::wgrad
