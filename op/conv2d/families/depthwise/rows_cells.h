// How windows and tiles of planes lie in a block's shared memory. Pure host arithmetic.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::depthwise {

inline constexpr int kDepthwiseColumns = 4;  // outputs of a row that a thread has
inline constexpr int kDepthwiseLanes = 8;    // threads that load a row of float32 together
inline constexpr int kDepthwiseWord = 8;     // elements of 16 bits that come together

// How rectangles of some planes lie in shared memory. float32: zeros surround what exists of a
// plane. Elements of 16 bits: the aligned words of memory that hold what exists, as they are; where
// rows follow each other in memory and the rectangle has them whole, all rows of a plane are one
// run, else each is one.
struct DepthwiseCells {
  int32_t pitch, plane_pitch;  // elements from a row to the next, from a plane's to the next
  // Of 16 bits:
  bool is_dense;  // the rows of a plane are one run
  FastDiv words;  // of a row that is a run, at most
  // Elements before the first plane's and after the last one's, so that rows beyond the planes can
  // be read, whatever they hold.
  int32_t before, after;
};

// A rectangle of a tile: its rows and columns of planes of some size, the first of which lie at
// (top, left) in the first tile; threads along a row read `cells` each, `advance` apart.
struct DepthwiseRectangle {
  int64_t rows, columns, height, width, top, left;
  int64_t threads, cells, advance;
  int64_t tiles_w, row_step;  // elements from a row to the next in memory

  int64_t read() const { return (threads - 1) * advance + cells; }
};

DepthwiseCells make_depthwise_cells(const DepthwiseRectangle& of, int64_t element_size);

// Elements of so many planes.
int64_t elements_of(const DepthwiseCells& cells, int64_t planes);

}  // namespace haloconv::depthwise
