// The weight gradient of filters two columns wide with a stride of 2 along rows, such as U-Net's
// transposed 2x2, of tensors with rows innermost: what the unfolded product is (unfold.h), without
// the copy. An output pixel meets a pair of neighbours of each input row, so that pairs lie in
// shared memory as they lie in the tensor, and threads take them apart on their way to registers.
//
//   grad_filter[k, c, r, 0] = sum over pixels (p, q) of grad_output[k, p, q] * input[c, h, 2q]
//   grad_filter[k, c, r, 1] = sum over pixels (p, q) of grad_output[k, p, q] * input[c, h, 2q + 1]
//
// in which h is the row that r meets. A block computes 128 output channels times two halves: each
// 64 input channels of a row of the filter, for a warpgroup.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/pointwise/wgrad_arguments.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::pointwise {

inline constexpr int kPairedChannels = 64;  // of a half
inline constexpr int kPairedStages = 4;
inline constexpr Tile kPairedTile = {128, 128};  // output channels, rows of pairs
inline constexpr int kPairBytes = 4;             // of two 16-bit values

HALOCONV_HOST_DEVICE constexpr int paired_grads_bytes() { return kPairedTile.rows * kDepth * 2; }
HALOCONV_HOST_DEVICE constexpr int paired_chunk_bytes() {
  return paired_grads_bytes() + kPairedTile.columns * kDepth * kPairBytes;
}
constexpr int paired_shared_bytes() { return 1024 + kPairedStages * paired_chunk_bytes(); }

struct PairedArguments {
  // Of the unfolded product: its columns are (c, r, s). Column tiles are pairs of halves.
  WgradArguments product;
  // Distances between neighbours of the input, in 16-bit values.
  int64_t input_n, input_c, input_h;
  FastDiv image, row;  // 16-bit values of an image of grad_output, of a row
  int32_t height, stride_h, dilation_h, pad_top;
  int32_t channels, taps_h;
  FastDiv channel_blocks;  // halves of a row of the filter

  int32_t halves() const { return taps_h * channel_blocks.divisor; }
};

// Where a pixel's pair lies in a chunk, behind grad_output's part: of a row of pairs, by its byte
// in the row. Four rows' pairs lie in different banks.
HALOCONV_HOST_DEVICE constexpr int32_t paired_place(int32_t row, int32_t byte) {
  return row * (kDepth * kPairBytes) + (byte ^ (row % 4 * 32));
}

// With so many splits. None where the kernel does not take the problem.
std::optional<PairedArguments> make_paired_arguments(const Conv2dProblem& problem, int splits);

}  // namespace haloconv::pointwise
