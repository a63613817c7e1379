// Where a filter is dilated along a column, rows of the destination that lie as far apart as its
// taps meet rows of the source that lie as far apart. So each dilation_h'th row makes up an image
// of its own, on which the filter is dense: a patch's window has fewer rows, since no row of it is
// between the taps of all of its pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/problem.h"

namespace haloconv::implicit_gemm {

// One of the problems that a problem consists of, and where its tensors begin, in elements.
struct InterleavedRows {
  Conv2dProblem problem;
  int64_t input_offset, output_offset;
};

// All of them, each of which takes a launch; none where there is but one, or where they are many.
std::vector<InterleavedRows> interleaved_rows(const Conv2dProblem& problem);

}  // namespace haloconv::implicit_gemm
