// The gradient of an input with few channels: how its pixels are cut, and where products are added.
//
// With strides, neighbouring pixels of the gradient meet other taps. A position (i, j) stands for
// stride_h x stride_w of them: pixel (h, w) belongs to the position (h + pad_top) / stride_h. The
// rest of the division and its channel are the position's channel. Positions are a gradient without
// strides: position (i, j) meets grad_output's pixel (i - u, j - v) by the tap (u, v), which is the
// filter's (u * stride_h + rest_h, v * stride_w + rest_w), or a zero beyond it.
//
// A strip is 64 or 128 columns of positions of an image. A warpgroup goes down it and keeps the
// sums of as many of its rows as there are taps one below the other. Each row of grad_output is
// brought once, and an instruction multiplies it with all rows of taps side by side. Then the
// eldest sums are results, the others move up, and new ones begin at 0.
//
// Rows of the gradient are lines of contiguous elements, one for all channels or one for each. They
// are put together in shared memory and written by 16 bytes.
//
// The second operand has zeros where no tap is, and the first where no pixel is. Zeros times
// infinity are NaN, which must not reach results:
// - Rows that grad_output does not have are left out.
// - Columns that it does not have are multiplied only with a finite filter, or with one weight that
//   is not (lone_weight.h). With more, each column of taps is by itself, added where pixels exist.
// - With strides, some rests have a tap less than others. Where the channels of rests that have the
//   last column of taps fit into one half of the operand's columns, and the others into the other
//   half, that column of taps is multiplied with the first half alone (`halves`). Sums of rests
//   without a tap in the last row begin at 0 a row later.
// - Otherwise, as where a dilation leaves gaps between taps, results that are NaN are computed
// again
//   (`mends`).
//
// If grad_output's rows are innermost, a box of them comes to shared memory as it lies, and the
// warp that asked for it transposes it to a window of pixels with 64 channels each.
//
// float32 is multiplied in TF32, with channels innermost alone: a window of 128 bytes has half as
// many channels, and the copy engine rounds them.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kBlockColumns = 64;  // of positions, that an instruction multiplies
// A pixel's channels of grad_output in a window.
inline constexpr int kPixelBytes = 128;
inline constexpr int kNarrowPixelBytes = 64;
inline constexpr int kMaxWindows = 16;  // of a warpgroup
inline constexpr int kMaxBoxes = 4;     // of a warpgroup, to be transposed

// grad_output's channels that an instruction multiplies.
HALOCONV_HOST_DEVICE constexpr int32_t dgrad_depth(int32_t element_bytes) {
  return 32 / element_bytes;
}

// An instruction's width: rows of taps, each with so many channels of positions. A strip is so many
// blocks of columns wide.
struct DgradShape {
  int32_t rows, channels, blocks = 1;
  constexpr bool operator==(const DgradShape&) const = default;
};
inline constexpr DgradShape kDgradShapes[] = {{4, 8},  {2, 16}, {1, 48},   {8, 8},    {4, 16},
                                              {4, 32}, {2, 64}, {4, 8, 2}, {2, 16, 2}};
// In TF32. Strips of 128 columns took 0.98 of the time for vgg16_1, and 1.01 to 1.02 for unet_in
// and efficientnet_stem (H200): there are none.
inline constexpr DgradShape kDgradTf32Shapes[] = {{4, 8}, {2, 16}, {1, 48}, {4, 16}};

// Warpgroups that multiply. Wide sums leave registers for only two. In TF32 four would not have
// room to put rows of 48 channels together.
constexpr int dgrad_groups(const DgradShape& shape, int32_t element_bytes) {
  if (element_bytes == 4 && shape.channels == 48) return 3;
  return shape.rows * shape.channels > 64 ? 2 : 4;
}

// Whether an instruction of half of the columns has whole groups of eight channels.
HALOCONV_HOST_DEVICE constexpr bool dgrad_can_halve(int32_t channels) {
  return channels % 16 == 0 && channels != 48;
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

// 16 bytes of a strip's line of the gradient.
struct LineVector {
  int32_t rest_h, line;
  int32_t element;  // of the line, the first of them; may be outside of it
  uint32_t exists;  // a bit for each of them that is the strip's, and in the line
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
  int32_t end_column;               // after that of its last one
  int32_t taps_h, taps_w;           // of positions
  int32_t strip_columns;            // of positions
  FastDiv rows, strips;             // of positions in an image
  int32_t all_rows, worker_rows;    // of all strips, and those that a warpgroup computes
  int32_t chunks;                   // of grad_output's channels
  int32_t chunk_channels;           // of a window
  int32_t filter_bytes, window_bytes, windows;
  // With grad_output's rows innermost: a box's columns, those that are transposed, and how many of
  // these are before the window's first; a warpgroup's boxes.
  int32_t box_columns, transposed_columns, box_shift, box_bytes, boxes;
  // Lines of a row of the gradient, and their elements; elements of a position in one, and 16 bytes
  // of a strip's line, the last ones left over from the first.
  FastDiv lines;
  int32_t line_elements, position_elements;
  FastDiv line_vectors;
  // Rests with a tap in the last row of taps, and in the last column; the first channel of the
  // others, where the last column of taps has half of the operand's columns; whether zeros that are
  // no taps may reach results.
  int32_t last_rests_h, last_rests_w, second_half;
  bool mends;
  // What shift() grows by from one row of positions to the next, modulo the elements of 16 bytes.
  int32_t shift_step;
  // Elements of the filter for one of grad_output's channels, and how many channels the threads
  // that multiply read at a time.
  FastDiv filter_taps;
  int32_t filter_step;
  int32_t element_bytes;  // kernels know them, and pass them as constants

  HALOCONV_HOST_DEVICE PositionTap tap(int32_t of_r, int32_t of_s, int32_t of_c) const {
    const int32_t row = of_r * dilation_h, column = of_s * dilation_w;
    const int32_t u = stride_h.quotient(row), v = stride_w.quotient(column);
    const int32_t rest_h = row - u * stride_h.divisor, rest_w = column - v * stride_w.divisor;
    const bool second = rest_w >= last_rests_w;
    const int32_t in_half = second ? rest_w - last_rests_w : rest_w;
    return {u, v,
            (second ? second_half : 0) + (rest_h * rests_w(second) + in_half) * c.divisor + of_c};
  }
  // The rows of a warpgroup.
  HALOCONV_HOST_DEVICE int32_t first_of(int32_t worker) const { return worker * worker_rows; }
  HALOCONV_HOST_DEVICE int32_t end_from(int32_t first) const {
    return first + worker_rows < all_rows ? first + worker_rows : all_rows;
  }
  // The rows from number `first` on that are in one strip and before `end`.
  HALOCONV_HOST_DEVICE StripPart part(int32_t first, int32_t end) const {
    const int32_t strip = rows.quotient(first), row = first - strip * rows.divisor;
    const int32_t image = strips.quotient(strip), left = rows.divisor - row;
    return {image, first_column + (strip - image * strips.divisor) * strip_columns, row,
            left < end - first ? left : end - first};
  }
  // The first row of the gradient that a row of a part stands for, which may be outside of it.
  HALOCONV_HOST_DEVICE int32_t first_h(const StripPart& part, int32_t in_part) const {
    return (first_row + part.row + in_part) * stride_h.divisor - pad_top;
  }
  // The first element of a strip in a line, which may be outside of it.
  HALOCONV_HOST_DEVICE int32_t first_element(const StripPart& part) const {
    return (part.column * stride_w.divisor - pad_left) * (lines.divisor == 1 ? c.divisor : 1);
  }
  // How far that element is beyond a multiple of 16 bytes, which have `unit` elements: results lie
  // as far up in shared memory.
  HALOCONV_HOST_DEVICE int32_t shift(const StripPart& part, int32_t to_h, int32_t line,
                                     int32_t unit) const {
    const auto low = [](int64_t a, int32_t b) {
      return static_cast<uint32_t>(a) * static_cast<uint32_t>(b);
    };
    return static_cast<int32_t>((low(input_n, part.image) + low(input_h, to_h) +
                                 low(input_c, line) + static_cast<uint32_t>(first_element(part))) &
                                (unit - 1));
  }
  HALOCONV_HOST_DEVICE int32_t all_vectors() const {
    return stride_h.divisor * lines.divisor * line_vectors.divisor;
  }
  // Number `i` of a strip's lines, where the row of positions begins at h.
  HALOCONV_HOST_DEVICE LineVector vector(const StripPart& part, int32_t h, int32_t i,
                                         int32_t unit) const {
    const int32_t of_all = line_vectors.quotient(i), rest_h = lines.quotient(of_all);
    const int32_t line = of_all - rest_h * lines.divisor, first = first_element(part);
    const int32_t element =
        first - shift(part, h + rest_h, line, unit) + (i - of_all * line_vectors.divisor) * unit;
    const int32_t end = first + strip_columns * position_elements;
    const int32_t least = (first > 0 ? first : 0) - element;
    const int32_t most = (end < line_elements ? end : line_elements) - element;
    const int32_t from = least > 0 ? least : 0, to = most < unit ? most : unit;
    const uint32_t exists = from < to ? (1u << to) - (1u << from) : 0;
    return {rest_h, line, element, exists};
  }
  // The ring of a warpgroup.
  HALOCONV_HOST_DEVICE int32_t ring_bytes() const {
    return windows * window_bytes + boxes * box_bytes;
  }
  // A strip's line in shared memory, before its results move to where 16 bytes begin.
  HALOCONV_HOST_DEVICE int32_t staged_elements(int32_t unit) const {
    return line_vectors.divisor * unit;
  }
  HALOCONV_HOST_DEVICE int32_t staging_bytes() const {
    return stride_h.divisor * lines.divisor * staged_elements(8) * 2;
  }
  // Where a position's channel belongs: the row and the line, and the position's element in that
  // line. Of a channel that no position has, the row is stride_h or more.
  HALOCONV_HOST_DEVICE LinePlace line_place(int32_t channel) const {
    const bool second = halves() && channel >= second_half;
    const int32_t in_half = channel - (second ? second_half : 0);
    const int32_t of_row = rests_w(second) * c.divisor;
    const int32_t rest_h = in_half / of_row, in_row = in_half - rest_h * of_row;
    const int32_t rest_w = c.quotient(in_row) + (second ? last_rests_w : 0);
    const int32_t of_c = in_row - c.quotient(in_row) * c.divisor;
    return lines.divisor == 1 ? LinePlace{rest_h, 0, rest_w * c.divisor + of_c}
                              : LinePlace{rest_h, of_c, rest_w};
  }
  // Whether a pixel's channels in a window are 64 bytes.
  HALOCONV_HOST_DEVICE bool is_narrow(int32_t of_bytes) const {
    return chunk_channels == kNarrowPixelBytes / of_bytes;
  }
  // Whether the last column of taps has half of the operand's columns.
  HALOCONV_HOST_DEVICE bool halves() const { return second_half > 0; }
  // How many rests along w a half's channels have.
  HALOCONV_HOST_DEVICE int32_t rests_w(bool second) const {
    return second ? stride_w.divisor - last_rests_w : last_rests_w;
  }
  HALOCONV_HOST_DEVICE bool has_row(int32_t of_p) const {
    return static_cast<uint32_t>(of_p) < static_cast<uint32_t>(p);
  }
  HALOCONV_HOST_DEVICE bool has_column(int32_t of_q) const {
    return static_cast<uint32_t>(of_q) < static_cast<uint32_t>(q);
  }
  // Rows of a part whose own row of grad_output exists, counted as the part's; the first ones only
  // add to later rows.
  HALOCONV_HOST_DEVICE int32_t first_source(const StripPart& part) const {
    const int32_t first = first_row + part.row;
    return first < taps_h - 1 ? -first : 1 - taps_h;
  }
  HALOCONV_HOST_DEVICE int32_t end_source(const StripPart& part) const {
    const int32_t left = p - first_row - part.row;
    return left < part.rows ? left : part.rows;
  }
  // Whether the gradient's pixels in a strip meet columns that grad_output does not have.
  HALOCONV_HOST_DEVICE bool is_at_edge(const StripPart& part) const {
    const int32_t end = part.column + strip_columns;
    return part.column < taps_w - 1 || (end < end_column ? end : end_column) > q;
  }
};

// The operand's column of a tap row and a position's channel: by groups of eight channels.
HALOCONV_HOST_DEVICE constexpr int32_t dgrad_column(int32_t rows, int32_t u, int32_t channel) {
  return (channel / 8 * rows + u) * 8 + channel % 8;
}

// A bit for each tap column of the filter; the last one is of all from there on.
HALOCONV_HOST_DEVICE constexpr uint32_t tap_bit(int32_t v) { return 1u << (v < 31 ? v : 31); }

// Bytes from the operand's start to the filter's value for a position's channel, the tap row `u`
// and grad_output's channel k: rows of a chunk's channels, swizzled.
HALOCONV_HOST_DEVICE inline int32_t dgrad_filter_place(const DgradArguments& args,
                                                       const DgradShape& shape,
                                                       const PositionTap& tap, int32_t k,
                                                       int32_t element_bytes) {
  const bool is_narrow = args.is_narrow(element_bytes);
  const int32_t row = dgrad_column(shape.rows, tap.u, tap.channel);
  const int32_t unit_shift = element_bytes == 4 ? 2 : 3;  // by it, 16 bytes' elements
  const int32_t chunk = k >> (is_narrow ? unit_shift + 2 : unit_shift + 3);
  const int32_t in_chunk = k & ((is_narrow ? 4 << unit_shift : 8 << unit_shift) - 1);
  const int32_t unit = chunk * args.taps_w + args.taps_w - 1 - tap.v;
  const int32_t turn = is_narrow ? row >> 1 & 3 : row & 7;
  return ((unit * shape.rows * shape.channels + row) << (is_narrow ? 6 : 7)) +
         ((in_chunk >> unit_shift ^ turn) << 4) +
         (in_chunk & ((1 << unit_shift) - 1)) * element_bytes;
}

}  // namespace haloconv::sm90::first_layers
