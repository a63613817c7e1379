// The gradient of an input with few channels: how its pixels are cut, and where products are added.
//
// With strides, neighbouring pixels of the gradient meet other taps. A position (i, j) stands for
// stride_h x stride_w of them: pixel (h, w) belongs to the position (h + pad_top) / stride_h. The
// rest of the division and its channel are the position's channel. Positions are a gradient without
// strides: position (i, j) meets grad_output's pixel (i - u, j - v) by the tap (u, v), which is the
// filter's (u * stride_h + rest_h, v * stride_w + rest_w), or a zero beyond it.
//
// A strip is 64 columns of positions of an image. A warpgroup goes down it and keeps the sums of as
// many of its rows as there are taps one below the other. Each row of grad_output is brought once,
// and an instruction multiplies it with all rows of taps side by side. Then the eldest sums are
// results, the others move up, and new ones begin at 0.
//
// Rows of the gradient are lines of contiguous elements, one for all channels or one for each. They
// are put together in shared memory and written by 16 bytes.
//
// If grad_output's rows are innermost, a box of them comes to shared memory as it lies, and the
// warp that asked for it transposes it to a window of pixels with 64 channels each.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kStripColumns = 64;
inline constexpr int kChunkChannels = 64;  // of grad_output: 128 bytes
inline constexpr int kMaxWindows = 16;     // of a warpgroup
inline constexpr int kMaxBoxes = 4;        // of a warpgroup, to be transposed

// An instruction's width: rows of taps, each with so many channels of positions.
struct DgradShape {
  int32_t rows, channels;
  constexpr bool operator==(const DgradShape&) const = default;
};
inline constexpr DgradShape kDgradShapes[] = {{4, 8},  {2, 16}, {1, 48}, {8, 8},
                                              {4, 16}, {4, 32}, {2, 64}};

// Warpgroups that multiply; wide sums leave registers for only two.
constexpr int dgrad_groups(const DgradShape& shape) {
  return shape.rows * shape.channels > 64 ? 2 : 4;
}

// The place of an element of the filter among the taps of positions.
struct PositionTap {
  int32_t u, v, channel;
};

// Rows of a strip that a warpgroup computes one after the other.
struct StripPart {
  int32_t image, column;  // the strip's first position
  int32_t row, rows;      // the first, and how many
};

struct LinePlace {
  int32_t rest_h, line, element;
};

struct DgradArguments {
  const void *grad_output, *filter;
  void* grad_input;
  int64_t output_n, output_k, output_p, output_q, input_n, input_c, input_h;  // strides
  int64_t filter_k, filter_c, filter_r, filter_s;
  int32_t k, p, q, h, w;
  int32_t pad_top, pad_left, dilation_h, dilation_w;
  FastDiv c, r, s, stride_h, stride_w;

  int32_t first_row, first_column;  // position of the gradient's first pixel
  int32_t taps_h, taps_w;           // of positions
  FastDiv rows, strips;             // of positions in an image
  int32_t all_rows, worker_rows;    // of all strips, and those that a warpgroup computes
  int32_t chunks;                   // of grad_output's channels
  int32_t filter_bytes, window_bytes, windows;
  // With grad_output's rows innermost: a box's columns, those that are transposed, and how many of
  // these are before the window's first; a warpgroup's boxes.
  int32_t box_columns, transposed_columns, box_shift, box_bytes, boxes;
  // Lines of a row of the gradient, and their elements; elements of a position in one, and 16 bytes
  // of a strip's line, the last ones left over from the first.
  FastDiv lines;
  int32_t line_elements, position_elements;
  FastDiv line_vectors;

  HALOCONV_HOST_DEVICE PositionTap tap(int32_t of_r, int32_t of_s, int32_t of_c) const {
    const int32_t row = of_r * dilation_h, column = of_s * dilation_w;
    const int32_t u = stride_h.quotient(row), v = stride_w.quotient(column);
    const int32_t rest_h = row - u * stride_h.divisor, rest_w = column - v * stride_w.divisor;
    return {u, v, (rest_h * stride_w.divisor + rest_w) * c.divisor + of_c};
  }
  // The rows from number `first` on that are in one strip and before `end`.
  HALOCONV_HOST_DEVICE StripPart part(int32_t first, int32_t end) const {
    const int32_t strip = rows.quotient(first), row = first - strip * rows.divisor;
    const int32_t image = strips.quotient(strip), left = rows.divisor - row;
    return {image, first_column + (strip - image * strips.divisor) * kStripColumns, row,
            left < end - first ? left : end - first};
  }
  // The ring of a warpgroup.
  HALOCONV_HOST_DEVICE int32_t ring_bytes() const {
    return windows * window_bytes + boxes * box_bytes;
  }
  // A strip's line in shared memory, before its results move to where 16 bytes begin.
  HALOCONV_HOST_DEVICE int32_t staged_elements() const { return line_vectors.divisor * 8; }
  HALOCONV_HOST_DEVICE int32_t staging_bytes() const {
    return stride_h.divisor * lines.divisor * staged_elements() * 2;
  }
  // Where a position's channel belongs: the row and the line, and the position's element in that
  // line.
  HALOCONV_HOST_DEVICE LinePlace line_place(int32_t channel) const {
    const int32_t of_row = stride_w.divisor * c.divisor;
    const int32_t rest_h = channel / of_row, in_row = channel - rest_h * of_row;
    if (lines.divisor == 1) return {rest_h, 0, in_row};
    const int32_t rest_w = c.quotient(in_row);
    return {rest_h, in_row - rest_w * c.divisor, rest_w};
  }
};

// Bytes from the operand's start to the filter's value for a position's channel, the tap row `u`
// and grad_output's channel k: rows of 128 bytes, swizzled.
HALOCONV_HOST_DEVICE inline int32_t dgrad_filter_place(const DgradArguments& args,
                                                       const DgradShape& shape,
                                                       const PositionTap& tap, int32_t k) {
  const int32_t row = tap.u * shape.channels + tap.channel, in_chunk = k % kChunkChannels;
  const int32_t unit = k / kChunkChannels * args.taps_w + args.taps_w - 1 - tap.v;
  return (unit * shape.rows * shape.channels + row) * 128 + (in_chunk / 8 ^ row % 8) * 16 +
         in_chunk % 8 * 2;
}

}  // namespace haloconv::sm90::first_layers
