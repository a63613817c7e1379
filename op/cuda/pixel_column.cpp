#include "cuda/pixel_column.h"

namespace haloconv {

namespace {

bool is_corner(int64_t corner) { return corner >= -128 && corner <= 127; }

}  // namespace

int64_t upper_corner(int32_t first, int32_t count, int32_t step, int64_t size) {
  return first + int64_t{step} * (count - 1) - (size - 1);
}

bool fits_im2col(const PixelColumn& column, int64_t w, int64_t h) {
  return is_corner(column.first_w) && is_corner(column.first_h) &&
         is_corner(upper_corner(column.first_w, column.count_w, column.step_w, w)) &&
         is_corner(upper_corner(column.first_h, column.count_h, column.step_h, h)) &&
         column.step_w <= 8 && column.step_h <= 8;
}

}  // namespace haloconv
