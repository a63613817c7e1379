// Strides of tensors that are slices of larger ones, and of filters that lie by taps.
#pragma once

#include "conv2d/problem.h"

namespace haloconv::testing {

// Channels innermost: of a tensor with more channels, columns and rows.
inline Strides channels_last_slice(int64_t c, int64_t h, int64_t w) {
  const int64_t pixel = c + 8, row = pixel * (w + 1), image = row * (h + 2);
  return {.n = image, .c = 1, .h = row, .w = pixel};
}

// Rows innermost: images and channels apart, rows with a pitch that no vector fits, which is what
// slices and padding leave.
inline Strides rows_slice(int64_t c, int64_t h, int64_t w) {
  const int64_t pitch = w + 3, plane = h * pitch + 5;
  return {.n = c * plane + 7, .c = plane, .h = pitch, .w = 1};
}

// The same, but all at even elements.
inline Strides even_rows_slice(int64_t c, int64_t h, int64_t w) {
  const int64_t pitch = w + 4 - w % 2, plane = h * pitch + 6;
  return {.n = c * plane + 10, .c = plane, .h = pitch, .w = 1};
}

// A filter's: for each tap a matrix of output channels and, innermost, input channels.
inline Strides filter_by_taps(const Conv2dProblem& p) {
  const int64_t tap = p.k * p.group_c();
  return {.n = p.group_c(), .c = 1, .h = p.s * tap, .w = tap};
}

}  // namespace haloconv::testing
