// What the bulk copy engine (TMA) copies in im2col mode; plain host arithmetic.
#pragma once

#include <cstdint>

namespace haloconv {

// A column of pixels, as im2col mode copies it: pixels of a (channels, w, h, images) tensor that
// follow each other in a box of base pixels, row by row and image by image. A copy adds a tap's
// offset to each; what then lies outside of the tensor reads as zeros.
struct PixelColumn {
  int32_t channels = 0, pixels = 0;  // copied at a time; pixels <= 1024
  int32_t first_w = 0, first_h = 0;  // the box's first base pixel; within -128 to 127
  int32_t count_w = 0, count_h = 0;  // base pixels of a row, and rows
  int32_t step_w = 1, step_h = 1;    // from one base pixel to the next; at most 8
};

// Offsets of taps are at most this in im2col mode.
inline constexpr int32_t kMaxTapOffset = 255;

// Whether the engine takes such a column of a tensor of w * h pixels.
bool fits_im2col(const PixelColumn& column, int64_t w, int64_t h);

// The box's last base pixel, relative to the last of `size` pixels of the tensor, along one axis.
int64_t upper_corner(int32_t first, int32_t count, int32_t step, int64_t size);

}  // namespace haloconv
