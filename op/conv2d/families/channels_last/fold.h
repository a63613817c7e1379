// dgrad of filters as wide as their stride, without padding along rows, as U-Net's transposed 2x2
// has them: the pixels of a row that one source pixel has for itself lie side by side, and so do
// the filter's columns. Together they are one pixel of as many times the channels, which one tap
// makes: products are wider, and the source is brought once for all of them.
#pragma once

#include "conv2d/problem.h"

namespace haloconv::sm90::channels_last {

// How many columns of the result are one of the folded problem, or 1 where nothing is folded.
int64_t columns_of_fold(const Conv2dProblem& problem, Direction direction);

// The folded problem: the same memory.
Conv2dProblem folded(const Conv2dProblem& problem, int64_t columns);

}  // namespace haloconv::sm90::channels_last
