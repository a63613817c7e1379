// Transposed convolutions whose filter is as large as its stride, two columns wide: each source
// pixel has R x 2 pixels of the result for itself. Their dgrad is that of a filter of one tap with
// R x 2 times as many input channels, (channel, row, column), as the filter has them in memory;
// only the results lie elsewhere: rows (channel, row, 0) and (channel, row, 1) of the product are
// the even and the odd pixels of a row of the result.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/problem.h"

namespace haloconv::pointwise {

struct Spread {
  int64_t filter_rows;     // R
  int64_t source_columns;  // of a row
  int64_t destination_h;   // elements from a row of the result to the next
};

// None where a problem's dgrad is no such product.
std::optional<Spread> spread_of(const Conv2dProblem& problem);

// The problem of one tap, flattened(), of a problem that has a spread.
Conv2dProblem one_tap_of(const Conv2dProblem& problem);

}  // namespace haloconv::pointwise
