// A problem as the forward pass by which it is computed: fprop, or an input gradient without
// strides, whose filter is turned around and has its channels exchanged. Dilations are 1.
#pragma once

#include <cstdint>

#include "conv2d/problem.h"

namespace haloconv {

struct ForwardPass {
  Strides source, result;  // of what is read, and of what is written
  int64_t h, w, p, q;      // of the source, and of the result
  int64_t pad_top, pad_left;
  // In elements: to the filter's first tap, and from there on.
  int64_t filter_first, filter_row, filter_column;
};

inline ForwardPass forward_pass_of(const Conv2dProblem& p, Direction direction) {
  const Strides& filter = p.filter;
  if (direction == Direction::kFprop) {
    return {p.input,   p.output,   p.h, p.w,      p.p(),   p.q(),
            p.pad_top, p.pad_left, 0,   filter.h, filter.w};
  }
  return {.source = p.output,
          .result = p.input,
          .h = p.p(),
          .w = p.q(),
          .p = p.h,
          .q = p.w,
          .pad_top = p.r - 1 - p.pad_top,
          .pad_left = p.s - 1 - p.pad_left,
          .filter_first = (p.r - 1) * filter.h + (p.s - 1) * filter.w,
          .filter_row = -filter.h,
          .filter_column = -filter.w};
}

}  // namespace haloconv
