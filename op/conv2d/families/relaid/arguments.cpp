#include "conv2d/families/relaid/arguments.h"

#include <stdexcept>

#include "conv2d/geometry/integers.h"

namespace haloconv::relaid {

namespace {

// Pixels that are together, and whole units from one of their neighbours to the next.
int32_t unit_of(const TensorCopy& copy, int64_t n, int64_t c, int64_t rows) {
  const Strides& strides = copy.strides;
  if (strides.w != 1) return 1;
  auto unit = static_cast<int32_t>(elements_of_unit(copy.element_bytes));
  const auto is_whole = [&](int64_t extent, int64_t stride) {
    return extent == 1 || stride % unit == 0;
  };
  while (copy.row.divisor % unit != 0 || !is_whole(n, strides.n) || !is_whole(c, strides.c) ||
         !is_whole(rows, strides.h)) {
    unit /= 2;
  }
  return unit;
}

}  // namespace

TensorCopy make_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                     int64_t w, int64_t padded_n) {
  const int64_t element_bytes = size_of(type);
  const bool rows_follow = h == 1 || strides.h == w * strides.w;
  TensorCopy copy{.element_bytes = narrow(element_bytes),
                  .strides = strides,
                  .image = FastDiv(h * w),
                  .row = FastDiv(rows_follow ? h * w : w),
                  .pixels = narrow(n * h * w),
                  .channels = narrow(c),
                  .padded_pixels = narrow(padded_n * h * w),
                  .padded_channels = narrow(round_up(c, elements_of_unit(element_bytes)))};
  copy.unit = unit_of(copy, n, c, rows_follow ? 1 : h);
  return copy;
}

TensorCopy make_spread_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                            int64_t w, int64_t step_h, int64_t step_w, int64_t p, int64_t q) {
  TensorCopy copy = make_copy(type, strides, n, c, h, w, n);
  copy.padded_pixels = narrow(n * p * q);
  copy.step_h = FastDiv(step_h);
  copy.step_w = FastDiv(step_w);
  copy.columns = FastDiv(w);
  copy.dense_rows = narrow(p);
  copy.dense_columns = narrow(q);
  return copy;
}

int32_t unit_at(const TensorCopy& copy, const void* address) {
  int32_t unit = copy.unit;
  while (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(unit * copy.element_bytes) !=
         0) {
    unit /= 2;
  }
  return unit;
}

void set_tiles(TensorCopy& copy, bool from_dense) {
  const int32_t side = tile_side(copy.element_bytes), image = copy.image.divisor;
  const bool follow = copy.strides.w == 1 && copy.row.divisor == image && copy.strides.c == image;
  // Reading images by themselves is useful if a tile has one.
  const bool are_images =
      follow && copy.unit == 1 && image <= side && (from_dense || image > side / 2);
  copy.way = Way::kSquares;
  copy.tile_pixels = side;
  if (copy.dense_rows > 0) {
    // Pixels are looked up one by one.
  } else if (from_dense && copy.padded_channels <= kFew && copy.element_bytes == 2) {
    copy.way = Way::kFewChannels;
    copy.tile_pixels = kFew * side;
  } else if (are_images) {
    copy.way = Way::kImages;
    copy.tile_pixels = side - side % image;
  }
  const int32_t pixels = from_dense ? copy.pixels : copy.padded_pixels;
  copy.channel_tiles = FastDiv(ceil_div(copy.channels, side));
  copy.tiles = narrow(ceil_div(pixels, copy.tile_pixels) * copy.channel_tiles.divisor);
}

void Copies::add(const TensorCopy& one) {
  if (count == kMostCopies) throw std::logic_error("haloconv: too many copies for one launch");
  copy[count++] = one;
  tiles += one.tiles;
}

}  // namespace haloconv::relaid
