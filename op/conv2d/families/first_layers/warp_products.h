// wgrad in TF32 with channels innermost, from both tensors as they lie, by the warp's matrix
// instruction.
//
// The product's rows are output channels, its columns the filter's elements (row of the filter,
// tap, channel), and its depth is pixels. The copy engine brings a tile's pixels of grad_output,
// and the rows of the input that they meet, with zeros for padding. A thread's words of the
// operands are single values: of grad_output two neighbouring channels of a pixel, and of the input
// any element of the pixel's window. So nothing is turned, and nothing unfolded. For the
// bias's gradient threads add up grad_output before they round it, and put their sums in the place
// of one more column's.
//
// Warps share the columns, and groups of such warps take tiles in turn.
//
// A warp reads eight columns' elements of four pixels at once, each two pixels from the next. If
// pixels lie two elements apart, or six, or ten, eight neighbouring elements would meet in some
// banks of shared memory. Then rows of the input lie half of all banks apart, and eight columns
// are four neighbouring elements of a row of the filter and the same four of the next row: all in
// banks of their own.
#pragma once

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kProductWarps = 8;      // that multiply
inline constexpr int kWarpInstructions = 5;  // side by side, of eight columns each
inline constexpr int kWarpColumns = kWarpInstructions * 8;
inline constexpr int kWarpDeep = 8;        // pixels of an instruction
inline constexpr int kWarpChannels = 32;   // 128 bytes of a pixel: the rows of two instructions
inline constexpr int kMostWarpChunks = 2;  // of so many channels
inline constexpr int kMostWarpStages = 16;

struct WarpProductsArguments {
  WgradArguments wgrad;  // without units and what depends on them
  int32_t chunks;        // of output channels, of a block
  int32_t column_warps;  // which share the columns
  int32_t shift;         // elements in front of a strip's first window
  int32_t pixel_step;    // elements from a pixel's window to the next one's
  int32_t pitch;         // elements of an input row in shared memory
  bool pairs_rows;       // of the filter, by fours of their elements
  int32_t stages, stage_bytes;

  HALOCONV_HOST_DEVICE int32_t groups() const { return kProductWarps / column_warps; }
  HALOCONV_HOST_DEVICE int32_t taps() const { return wgrad.s * wgrad.c; }
  HALOCONV_HOST_DEVICE int32_t elements() const { return wgrad.r * taps(); }
  HALOCONV_HOST_DEVICE int32_t pixels() const {
    return wgrad.sweep.tile_rows * wgrad.sweep.columns;
  }
  HALOCONV_HOST_DEVICE int32_t chunk_bytes() const { return pixels() * kWarpChannels * 4; }
  HALOCONV_HOST_DEVICE int32_t input_bytes() const {
    return wgrad.sweep.rows_of_tile() * pitch * 4;
  }
  HALOCONV_HOST_DEVICE int32_t sum_threads() const { return column_warps * 32; }
  HALOCONV_HOST_DEVICE int32_t sums_of_thread() const { return chunks * 2 * kWarpInstructions * 4; }
  // The first element of a strip's rows, which is a multiple of four; negative ones are padding.
  HALOCONV_HOST_DEVICE int32_t first_element(int32_t strip) const {
    return strip * wgrad.sweep.columns * pixel_step - wgrad.pad_left * wgrad.c - shift;
  }
};

// Where a lane finds its two neighbouring channels of one of two instructions below each other, of
// its pixel of the first or the second four, as the copy engine writes them: 16 bytes of a pixel's
// 128 change places with its number.
HALOCONV_HOST_DEVICE constexpr int32_t pixel_of_lane(int32_t lane, int32_t half) {
  return lane % 4 * 2 + half;
}
HALOCONV_HOST_DEVICE constexpr int32_t channels_at(int32_t lane, int32_t half, int32_t below) {
  const int32_t pixel = pixel_of_lane(lane, half);
  return pixel * 128 + ((below * 4 + lane / 8) ^ pixel) * 16 + lane / 4 % 2 * 8;
}

// The filter's row and the element of that row that a column of the product has.
struct WarpElement {
  int32_t r, element;

  HALOCONV_HOST_DEVICE WarpElement(const WarpProductsArguments& args, int32_t column) {
    const int32_t taps = args.taps(), fours = args.pairs_rows ? taps / 4 : 0;
    const int32_t paired_rows = args.wgrad.r / 2 * 2, paired = paired_rows * fours * 4;
    if (column < paired) {
      r = column / 8 / fours * 2 + column % 8 / 4;
      element = column / 8 % fours * 4 + column % 4;
      return;
    }
    // What is left of these rows, and whole rows.
    const int32_t left = taps - fours * 4, at = column - paired;
    const bool is_left = at < paired_rows * left;
    r = is_left ? at / left : paired_rows + (at - paired_rows * left) / taps;
    element = is_left ? fours * 4 + at % left : (at - paired_rows * left) % taps;
  }
};

// Where the window of a tile's first pixel has the element of a column of the product. Columns
// without an element read what the first one reads.
struct WarpColumn {
  int32_t bytes;

  HALOCONV_HOST_DEVICE WarpColumn(const WarpProductsArguments& args, int32_t column) {
    const WarpElement at(args, column < args.elements() ? column : 0);
    const int32_t s = at.element / args.wgrad.c, c = at.element % args.wgrad.c;
    bytes = (at.r * args.wgrad.dilation_h * args.pitch + args.shift +
             s * args.wgrad.dilation_w * args.wgrad.c + c) *
            4;
  }
};

// The element of the filter's gradient that one of a thread's sums is. Its sums are those of
// (chunk, one of two instructions below each other, instruction beside each other, register).
struct WarpSumPlace {
  int32_t k, c, r, s;
  bool is_filter, is_bias;  // both false for a column that is neither

  HALOCONV_HOST_DEVICE WarpSumPlace(const WarpProductsArguments& args, int32_t channel_tile,
                                    int32_t sum, int32_t thread) {
    const int32_t lane = thread % 32, below = sum / 4 / kWarpInstructions;
    const int32_t column =
        thread / 32 * kWarpColumns + sum / 4 % kWarpInstructions * 8 + lane % 4 * 2 + sum % 2;
    k = channel_tile * args.chunks * kWarpChannels + below * 16 + lane / 4 * 2 + sum % 4 / 2;
    const WarpElement at(args, column);
    r = at.r;
    s = at.element / args.wgrad.c;
    c = at.element % args.wgrad.c;
    is_filter = column < args.elements() && k < args.wgrad.k;
    is_bias = args.wgrad.with_bias && column == args.elements() && k < args.wgrad.k;
  }
};

}  // namespace haloconv::sm90::first_layers
