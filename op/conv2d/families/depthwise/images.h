// Depthwise wgrad of 16-bit types with channels innermost, by the warp's matrix instruction, whose
// depth are eight images by two rows of outputs. Of one channel it multiplies 16 columns of the
// input by 8 of the output's gradient, all with all; those that a tap has apart are added last:
//
//                       gradients 0 .. 7
//                     +-----------------+
//      input columns  | 0               |
//       0 .. 14       | 1 0             |     A product of column x with gradient g belongs to tap
//                     | 2 1 0           |     x - g * stride of the row of the filter that lies
//                     |   2 1 0         |     between the rows that are multiplied. Each row of the
//                     |     . . .       |     filter has sums of its own.
//      ones           | bias gradient   |
//                     +-----------------+
//
// No tap shifts an operand, since columns are never along the depth: all are 16 bytes, a pixel of
// eight images. A block has 16 channels, two of each warp, and goes down pairs of rows of a segment
// of columns, of eight images.
//
// Pure host arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/families/depthwise/axes.h"

namespace haloconv::depthwise {

inline constexpr int kImagesAtOnce = 8;
inline constexpr int kImageWarps = 8;
inline constexpr int kImageThreads = 32 * kImageWarps;
inline constexpr int kImageChannels = 2 * kImageWarps;  // of a block
inline constexpr int kInputColumns = 16;                // of the instruction, with that of ones
inline constexpr int kGradColumns = 8;

// Rows of all channels and images of a block, in shared memory.
inline constexpr int kInputRowBytes = kInputColumns * kImageChannels * kImagesAtOnce * 2;
inline constexpr int kGradRowBytes = kGradColumns * kImageChannels * kImagesAtOnce * 2;
// What a step brings: the rows of the input that a pair of rows of outputs is the first to meet,
// and these. Of as many steps rows are on their way, or have come as they lie in memory; of two
// they are planes of channels.
inline constexpr int kRawSteps = 3, kPlaneSteps = 2;
// A column of ones for each of a warp's channels; the others of their planes are not read.
inline constexpr int kOnesBytes = 2 * kInputColumns * 16;

HALOCONV_HOST_DEVICE constexpr int image_step_bytes(int step) {
  return 2 * step * kInputRowBytes + 2 * kGradRowBytes;
}
HALOCONV_HOST_DEVICE constexpr int images_shared_bytes(int step) {
  return (kRawSteps + kPlaneSteps) * image_step_bytes(step) + kOnesBytes;
}

// Columns of outputs of a segment, at most: what they meet, and the ones, are kInputColumns.
HALOCONV_HOST_DEVICE constexpr int most_segment_columns(int taps, int step) {
  const int columns = (kInputColumns - 1 - taps) / step + 1;
  return columns < kGradColumns ? columns : kGradColumns;
}

// Pairs of rows of the input that a pair of rows of outputs meets, and steps without outputs before
// the first such.
HALOCONV_HOST_DEVICE constexpr int image_pairs(int taps, int step) { return (taps + step + 1) / 2; }
HALOCONV_HOST_DEVICE constexpr int image_lead(int taps, int step) {
  return (image_pairs(taps, step) - 1) / step;
}

// Blocks on a multiprocessor that the kernels are compiled for.
HALOCONV_HOST_DEVICE constexpr int images_resident(int taps, int step) {
  if (step == 1) return taps == 3 ? 3 : 2;
  return taps <= 5 ? 2 : 1;
}

// The axes are fprop's. Splits share the pairs of rows of all segments and eights of images: those
// of the last segment first, which may have fewer columns.
struct Images : DepthwiseAxes {
  int32_t segment_columns;  // of outputs
  int32_t segments;         // of a row
  int32_t tiles;            // pairs of rows, of all segments and eights of images
  FastDiv pairs, eights;    // pairs of rows of an image, eights of images
  FastDiv channel_tiles;

  // Columns of outputs of a segment that exist.
  HALOCONV_HOST_DEVICE int32_t columns_of(int32_t segment) const {
    const int32_t left = w.outputs - segment * segment_columns;
    return left < segment_columns ? left : segment_columns;
  }
  int32_t lead() const { return image_lead(w.taps, w.step); }
  int32_t resident(const Chip& chip) const;
  // Expected of a chip's multiprocessors, all at work.
  double cycles(const Chip& chip) const;
};

// Nothing where the kernel does not take the problem: other types, what make_depthwise_axes() does
// not take, several outputs of a channel, filters that are not square, strides that differ;
// channels that are not innermost, or not multiples of 8 as all other distances are; a chip without
// the instruction, or with too little shared memory.
std::optional<Images> make_images(const Conv2dProblem& problem, const Chip& chip);

}  // namespace haloconv::depthwise
