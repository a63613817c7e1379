// wgrad of 16-bit types from rows of the input as they lie: plain_rows.h.
//
// The product's rows are the filter's elements (row of the filter, tap), 64 for each math
// warpgroup; its columns are output channels, and its depth is pixels. The first operand has
// neighbouring pixels of one element and comes from registers, to which threads load single
// elements. The second is grad_output, whose channels are side by side. One more element, 1 for all
// pixels, gives the bias's gradient.
#pragma once

#include "conv2d/families/first_layers/plain_rows.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kPlainRows = 64;       // of a math warpgroup
inline constexpr int kMostPlainGroups = 3;  // math warpgroups
inline constexpr int kMostPlainChunks = 2;  // of 64 output channels, if there is one warpgroup
inline constexpr int kPlainChunk = 64;
inline constexpr int kChunkSums = 32;  // a thread's for a chunk

struct PlainWgradArguments {
  WgradArguments wgrad;  // without units and what depends on them
  PlainRows rows;
  int32_t groups;  // math warpgroups
  int32_t chunks;  // of output channels, of a block

  HALOCONV_HOST_DEVICE int32_t math_threads() const { return groups * 128; }
  HALOCONV_HOST_DEVICE int32_t elements() const { return wgrad.r * rows.taps; }
};

// The product's row of a thread, in the first or the second half of its rows.
HALOCONV_HOST_DEVICE constexpr int32_t plain_row_of(int32_t thread, int32_t half) {
  return thread / 128 * kPlainRows + thread % 128 / 32 * 16 + thread % 32 / 4 + half * 8;
}

// The element of the filter to which a row of the product belongs: the row of the filter, and the
// byte of an input row at which the element's values begin. Rows without an element read what the
// first one reads.
struct PlainRowPlace {
  int32_t r, element_bytes;
  bool is_of_ones, exists;

  HALOCONV_HOST_DEVICE PlainRowPlace(const PlainWgradArguments& args, int32_t row) {
    const int32_t element = row < args.elements() ? row : 0;
    r = element / args.rows.taps;
    element_bytes = (args.rows.shift + element % args.rows.taps) * 2;
    is_of_ones = args.wgrad.with_bias && row == args.elements();
    exists = row < args.elements() || is_of_ones;
  }
};

// The element of the filter's gradient that one of a thread's sums is.
struct PlainSumPlace {
  int32_t k, c, r, s;
  bool is_filter, is_bias;  // both false for a row that is neither

  HALOCONV_HOST_DEVICE PlainSumPlace(const PlainWgradArguments& args, int32_t channel_tile,
                                     int32_t sum, int32_t thread) {
    const WgradArguments& wgrad = args.wgrad;
    const int32_t in_chunk = sum % kChunkSums;
    const int32_t row = plain_row_of(thread, in_chunk / 2 % 2), taps = args.rows.taps;
    k = (channel_tile * args.chunks + sum / kChunkSums) * kPlainChunk + in_chunk / 4 * 8 +
        thread % 4 * 2 + in_chunk % 2;
    r = row / taps;
    s = row % taps / wgrad.c;
    c = row % taps % wgrad.c;
    is_filter = row < args.elements() && k < wgrad.k;
    is_bias = wgrad.with_bias && row == args.elements() && k < wgrad.k;
  }
};

}  // namespace haloconv::sm90::first_layers
