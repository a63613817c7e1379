// Copies of tensors whose blocks of pixels become one pixel each: what a pixel of the dense copy
// has for channels are the places of its block, side by side. A strided convolution by such blocks
// is one without strides. Host arithmetic, and what the kernel and the tests share of it.
//
//     tensor, blocks of 2 x 2           dense
//     +---+---+---+                    pixel a: a0 a1 a2 a3
//     |a0 |a1 |b0 |b1                  pixel b: b0 b1 b2 b3
//     |a2 |a3 |b2 |b3
//
// With blocks of one pixel it is a filter's gradient, of which a group of filters takes the
// channels of its own from among those of several groups.
#pragma once

#include <cstdint>

#include "chip/chip.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::relaid {

// How blocks lie on a tensor: their sizes, what precedes the first row and column in the first
// block, and how many they are in each direction.
struct Blocks {
  int64_t height, width, top, left, rows, columns;
};

// An element's place in the tensor.
struct BlockPlace {
  int32_t image;
  int64_t offset;
  bool exists;
};

struct BlockCopy {
  const void* from = nullptr;
  void* to = nullptr;
  int32_t element_bytes = 2;  // or 4
  // The tensor.
  Strides strides = {};
  int32_t images = 0, height = 0, width = 0;
  // The dense one, in which what the tensor has not is zero.
  int32_t padded_images = 0;
  FastDiv rows = {}, columns = {};
  int32_t block_h = 1, block_w = 1, top = 0, left = 0;
  int32_t channels = 0;  // places of a block
  FastDiv pitch = {};    // from a pixel to the next
  // Places are ordered by channel, row and column, or by row, column and channel: elements of the
  // outermost of these, and of the next.
  bool has_channels_innermost = false;
  FastDiv outer = {}, inner = {};
  // Images of a group have their channels behind those of the groups before, of so many.
  FastDiv group_images = {}, merged = {};
  int32_t group_channels = 0;
  // Neighbouring places that are neighbours in the tensor too, and are moved at once.
  int32_t unit = 1;

  int64_t dense_pixels() const { return int64_t{padded_images} * rows.divisor * columns.divisor; }
  int64_t dense_elements() const { return dense_pixels() * pitch.divisor; }
  int64_t dense_bytes() const { return dense_elements() * element_bytes; }
  // Of the blocks that the tensor has.
  int64_t elements() const { return int64_t{images} * rows.divisor * columns.divisor * channels; }

  // Of a place of the dense tensor's pixel.
  HALOCONV_HOST_DEVICE BlockPlace place(int32_t pixel, int32_t channel) const {
    const int32_t all_rows = columns.quotient(pixel), column = pixel - all_rows * columns.divisor;
    const int32_t image = rows.quotient(all_rows), row = all_rows - image * rows.divisor;
    const int32_t first = outer.quotient(channel), rest = channel - first * outer.divisor;
    const int32_t second = inner.quotient(rest), third = rest - second * inner.divisor;
    const int32_t c = has_channels_innermost ? third : first;
    const int32_t h = row * block_h - top + (has_channels_innermost ? first : second);
    const int32_t w = column * block_w - left + (has_channels_innermost ? second : third);
    const bool exists = channel < channels && image < images &&
                        static_cast<uint32_t>(h) < static_cast<uint32_t>(height) &&
                        static_cast<uint32_t>(w) < static_cast<uint32_t>(width);
    return {image, image * strides.n + c * strides.c + h * strides.h + w * strides.w, exists};
  }
  // Where an image's channels begin in a pixel of the dense tensor.
  HALOCONV_HOST_DEVICE int32_t first_channel(int32_t image) const {
    const int32_t group = group_images.quotient(image);
    return (group - merged.quotient(group) * merged.divisor) * group_channels;
  }
};

// Of a tensor of n images of c channels, h rows and w columns, and a dense one of `padded_n` images
// with `pitch` elements a pixel, a multiple of 16 bytes where units are to be more than one.
BlockCopy make_block_copy(DataType type, const Strides& strides, int64_t n, int64_t c, int64_t h,
                          int64_t w, const Blocks& blocks, bool has_channels_innermost,
                          int64_t padded_n, int64_t pitch);

// Of the gradient of a filter of k groups' images, `merged` groups of which have their channels in
// one pixel of the dense one, which is of `padded_k` images.
BlockCopy make_group_copy(const Conv2dProblem& problem, int64_t merged, int64_t padded_k,
                          int64_t pitch);

// The units that fit the tensor's address.
int32_t unit_at(const BlockCopy& copy, const void* address);

// Of a copy of so many elements, expected.
double block_copy_ms(const BlockCopy& copy, const Chip& chip);

}  // namespace haloconv::relaid
