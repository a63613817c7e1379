// Which cells of shared memory a step of the mainloop reads. A step is two pixels of each of a
// strip's segments: the two k-halves of the matrix instruction.
//
// The last steps of a short strip may have one pixel of each segment, or none. Then a zero stands
// in grad_output's operand for a pixel that the output has not. It must meet a zero: that cell of
// the window may hold an infinity, which another tap meets rightly. So the descriptor's distance
// from the first k-half to the second leads to cells that are zero.
//
//   two pixels    | cells of pixel 0 |  ->  | cells of pixel 1 |       k_stride: one column
//   one           | cells of pixel 0 |  ->  | zeros            |       k_stride: from here to zeros
//   none          | zeros            |  ->  | zeros            |       k_stride: 0
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"

namespace haloconv::wgrad {

// A step's operand that begins at cell c of the ring has start + c * factor as the lower word of
// its descriptor: the address in the lower 16 bits, k_stride above, both in cells.
struct StepCells {
  uint32_t start, factor;

  HALOCONV_HOST_DEVICE uint32_t word(int32_t cell) const {
    return start + static_cast<uint32_t>(cell) * factor;
  }
};

// pixels: so many that there are from the step's first on. lines: the word of cell 0 where a step
// has two. zeros: the address of cells that are zero, behind the ring's, so that the distance to
// them is positive.
HALOCONV_HOST_DEVICE inline StepCells cells_of_step(int32_t pixels, uint32_t lines,
                                                    uint32_t zeros) {
  // The word of a cell, of one pixel: address + ((zeros - address) << 16).
  constexpr uint32_t kFactor = 1 - (1u << 16);
  const uint32_t start = (zeros << 16) + (lines & 0xffff) * kFactor;
  return {pixels >= 2   ? lines
          : pixels == 1 ? start
                        : zeros,
          pixels >= 2   ? 1
          : pixels == 1 ? kFactor
                        : 0};
}

}  // namespace haloconv::wgrad
