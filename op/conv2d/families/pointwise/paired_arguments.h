// The weight gradient of filters two to four columns wide with a stride of 2 along rows, such as
// U-Net's transposed 2x2 and StyleGAN's 3x3 and 4x4, of tensors with rows innermost: what the
// unfolded product is (unfold.h), without the copy. Neighbours of an input row, an even column and
// the next, are a pair, of which an output pixel meets the one that lies where it lies and, of
// wider filters, elements of the pairs beside it. Pairs lie in shared memory as they lie in the
// tensor, and threads take them apart on their way to registers.
//
//   grad_filter[k, c, r, s] = sum over pixels (p, q) of
//     grad_output[k, p, q] * input[c, h, 2q + s - pad_left]
//
// in which h is the row that r meets. A block computes some output channels times two halves: each
// 64 input channels of a row of the filter, for a warpgroup, with all columns of the filter.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

inline constexpr int kPairedChannels = 64;  // of a half
inline constexpr int kPairedRows = 2 * kPairedChannels;
inline constexpr int kPairedStages = 4;
inline constexpr int kPairBytes = 4;  // of two 16-bit values
// Of a row of pairs in a chunk: the chunk's, and 16 bytes before and after them. As many 32 bytes
// more than whole banks as make four rows lie in different ones.
inline constexpr int kPairedPitch = kDepth * kPairBytes + 2 * 16;

// Output channels of a block: as many as leave registers for the sums of all columns.
HALOCONV_HOST_DEVICE constexpr int paired_channels(int taps_w) { return taps_w == 2 ? 128 : 64; }
HALOCONV_HOST_DEVICE constexpr int paired_grads_bytes(int taps_w) {
  return paired_channels(taps_w) * kDepth * 2;
}
HALOCONV_HOST_DEVICE constexpr int paired_chunk_bytes(int taps_w) {
  return paired_grads_bytes(taps_w) + kPairedRows * kPairedPitch;
}
constexpr int paired_shared_bytes(int taps_w) {
  return 1024 + kPairedStages * paired_chunk_bytes(taps_w);
}

struct PairedArguments {
  // Of the unfolded product: its columns are (c, r, s). Column tiles are pairs of halves.
  WgradArguments product;
  // Distances between neighbours of the input, in 16-bit values.
  int64_t input_n, input_c, input_h;
  FastDiv image, row;  // 16-bit values of an image of grad_output, of a row
  int32_t height, stride_h, dilation_h, pad_top;
  int32_t width;  // 16-bit values of a row of the input
  int32_t channels, taps_h, taps_w, pad_left;
  FastDiv channel_blocks;  // halves of a row of the filter

  int32_t halves() const { return taps_h * channel_blocks.divisor; }
  // Whether pairs beside a pixel's own are met. Chunks lie in one row then.
  bool has_neighbours() const { return taps_w > 2; }
};

// Where a pixel's pair lies in a chunk, behind grad_output's part: of a row of pairs, by its byte
// from the chunk's first pair on.
HALOCONV_HOST_DEVICE constexpr int32_t paired_place(int32_t row, int32_t byte) {
  return row * kPairedPitch + 16 + byte;
}

// With so many splits. None where the kernel does not take the problem.
std::optional<PairedArguments> make_paired_arguments(const Conv2dProblem& problem, int splits);

}  // namespace haloconv::pointwise
