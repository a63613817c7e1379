// Filters with strides, or of several taps, as filters of one tap: forward and weight gradient read
// a copy of the input, unfolded, that has for each output pixel what its taps meet side by side as
// (channel, row, column) of the filter, zeros for padding. The input gradient of a strided filter
// of one tap is computed for the pixels that have one, and copied to its places among zeros.
//
// The copies take time and memory, but where the windows hardly overlap less than to read with
// strides.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

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

// None where a problem in rows that is no filter of one tap is not worth it, or cannot be unfolded.
std::optional<Unfold> unfold_of(const Conv2dProblem& problem, Direction direction);

// The problem of one tap, flattened(), of a problem that has one.
Conv2dProblem unfolded(const Conv2dProblem& problem);

// Of the copy there or back.
double unfold_ms(const Conv2dProblem& problem, const Unfold& unfold, Direction direction,
                 const Chip& chip);

}  // namespace haloconv::pointwise
