// A copy of the input that has for each output pixel what its taps meet side by side as (channel,
// row, column) of the filter, zeros for padding: (images, channels * taps, output pixels), dense.
#pragma once

#include <cstdint>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv {

struct Unfold {
  int64_t input_n, input_c, input_h;  // elements between neighbours
  int32_t n, h, w, p, q;
  int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int32_t taps_h, taps_w;
  FastDiv c;
  int32_t element_bytes;
  int32_t unit;  // pixels of a row that a thread copies, of 16 bytes at the most: 8, 4, 2 or 1

  // Of the copy.
  int64_t pixels() const { return int64_t{p} * q; }
  int64_t channels() const { return int64_t{c.divisor} * taps_h * taps_w; }
  int64_t bytes() const { return n * channels() * pixels() * element_bytes; }
  int64_t workspace_bytes() const { return (bytes() + 255) / 256 * 256; }
};

// For a problem without groups whose input has its rows innermost. `unit` divides the columns of
// the output.
Unfold make_unfold(const Conv2dProblem& problem, int32_t unit);

// Of the copy there or, of an input gradient, back.
double unfold_ms(const Conv2dProblem& problem, const Unfold& unfold, Direction direction,
                 const Chip& chip);

}  // namespace haloconv
