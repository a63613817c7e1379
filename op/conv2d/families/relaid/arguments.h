// The arguments of the kernels that copy tensors: host arithmetic.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

// A block copies as many pixels as channels: 32 words of each. kFewChannels copies eight times the
// pixels of at most 8 channels, and kImages whole images, whose channels follow each other.
enum class Way : int32_t { kSquares, kFewChannels, kImages };
inline constexpr int32_t kFew = 8;
constexpr int32_t tile_side(int64_t element_bytes) {
  return static_cast<int32_t>(32 * 4 / element_bytes);
}

// Elements of 16 bytes.
constexpr int64_t elements_of_unit(int64_t element_bytes) { return 16 / element_bytes; }

// A tensor (n, c, h, w) with any strides, and the dense one with channels innermost. Zeros make the
// dense one larger: to whole 16 bytes of channels, unless few are copied from it, and by images. If
// it has only some of the rows and columns, the other tensor's others are zeros.
struct TensorCopy {
  const void* from = nullptr;
  void* to = nullptr;
  int32_t element_bytes = 2;  // or 4
  Strides strides = {};       // of the tensor with any strides
  // Pixels of an image, and of the part of it that is at even distances: a row, or all its rows.
  FastDiv image = {}, row = {};
  int32_t pixels = 0;  // of all images
  int32_t channels = 0;
  int32_t padded_pixels = 0, padded_channels = 0;  // of the dense tensor
  // Neighbouring pixels that are moved at once, at most 16 bytes.
  int32_t unit = 1;
  // The dense tensor has each step_h-th row and each step_w-th column.
  FastDiv step_h = {}, step_w = {}, columns = {};
  int32_t dense_rows = 0, dense_columns = 0;  // 0: it has all
  Way way = Way::kSquares;
  FastDiv channel_tiles = {};
  int32_t tile_pixels = 0;
  int32_t tiles = 0;

  // Bytes of the dense tensor, and of the other.
  int64_t dense_bytes() const { return int64_t{padded_pixels} * padded_channels * element_bytes; }
  int64_t other_bytes() const { return int64_t{pixels} * channels * element_bytes; }
};

// The copy for a tensor of n images of h rows and w columns, and a dense one of `padded_n` images.
TensorCopy make_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                     int64_t w, int64_t padded_n);

// The same for a dense tensor of p rows and q columns, step_h and step_w apart in the other.
TensorCopy make_spread_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                            int64_t w, int64_t step_h, int64_t step_w, int64_t p, int64_t q);

// Pixels that are moved at once if the tensor begins at this address.
int32_t unit_at(const TensorCopy& copy, const void* address);

// How a kernel copies from the dense tensor, or to it, with the copy's unit.
void set_tiles(TensorCopy& copy, bool from_dense);

// Tensors of one type, copied by one launch.
inline constexpr int kMostCopies = 6;  // two operands, residual, bias, scale and shift
struct Copies {
  TensorCopy copy[kMostCopies];
  int32_t count = 0;
  int64_t tiles = 0;

  void add(const TensorCopy& one);
};

}  // namespace haloconv::relaid
