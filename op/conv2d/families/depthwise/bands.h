// Depthwise fprop and dgrad of 16-bit types with channels innermost, by the warp's matrix
// instruction. Along a row, what a channel's filter row does to neighbouring pixels is a product
// with a band matrix, here of 3 taps:
//
//                         outputs 0 .. 7
//                       +-----------------+
//      source pixels    | a               |     One instruction multiplies 16 segments of as many
//       0 .. 15   of    | b a             |     source pixels by it, and adds 8 outputs of each.
//      16 segments   x  | c b a           |     A segment's rows come one after the other; each
//                       |   c b a         |     meets every row of the filter, whose sums belong
//                       |     . . .       |     to as many rows of outputs.
//                       +-----------------+
//
// A block has some channels, two of each warp, and up to 16 segments: `across` neighbours of each
// of some strips. A strip is some rows of outputs of one image, as wide as the destination or a
// part of it. All strips of a block go down their rows together.
//
// Pure host arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/depthwise/axes.h"

namespace haloconv::depthwise {

inline constexpr int kBandSegments = 16;   // of a block, at most: rows of the instruction
inline constexpr int kSegmentOutputs = 8;  // columns of it
inline constexpr int kDeepPixels = 16;     // of the source, that it multiplies
inline constexpr int kBandWarps = 8;
inline constexpr int kWarpChannels = 2;
inline constexpr int kBandThreads = 32 * kBandWarps;
inline constexpr int kBandChannels = kBandWarps * kWarpChannels;  // of a block
inline constexpr int kBandEights = kBandChannels / 8;

// A row of a channel's plane has chunks of 8 pixels: those of each strip's segments, and one more
// for each strip, into which its last segment reaches.
inline constexpr int kPlaneChunks = 32;  // at most
inline constexpr int kPlaneBytes = kPlaneChunks * 16;
// A set of planes holds a row of each strip, of all channels of a block.
inline constexpr int kSetBytes = kBandChannels * kPlaneBytes;
// Then what BandsNonfinite has (bands_nonfinite.cuh).
HALOCONV_HOST_DEVICE constexpr int band_nonfinite_bytes(int taps) {
  return 64 + (4 + (taps == 3 ? 8 : 16)) * kBandThreads * 4 + kBandChannels * taps * 32;
}
// Rows that have come from global memory or are on their way; a power of 2.
inline constexpr int kRawRows = 4;

// Blocks on a multiprocessor that the kernels are compiled for.
HALOCONV_HOST_DEVICE constexpr int bands_resident(int taps) { return taps == 3 ? 3 : 2; }

struct Bands : DepthwiseAxes {
  int32_t strip_rows;         // of outputs
  int32_t across;             // segments of a strip
  int32_t strips_at_once;     // of a block
  int32_t strips;             // of all images
  int32_t image_strips;       // of an image
  int32_t row_chunks;         // of 8 source pixels, of a strip's row
  int32_t pairs;              // of neighbouring pixels of a row of all strips, of 8 channels each
  int64_t most_shared_bytes;  // that shared_bytes() may be on the chip
  FastDiv channel_tiles, column_tiles, strips_of_image, pairs_of_row, segments_across;

  int64_t blocks() const;
  // Of rows on their way, two sets of planes, what is not finite, two rows of outputs (in float32
  // where something is fused), and the filters.
  int64_t raw_bytes() const { return int64_t{kRawRows} * pairs * 32; }
  int64_t filter_bytes() const { return int64_t{2} * kBandChannels * h.taps * w.taps; }
  int64_t shared_bytes(bool fused) const;
  // Of a block: a row of the source is added to as many rows of outputs as the filter has.
  HALOCONV_HOST_DEVICE int32_t iterations() const { return strip_rows + h.taps - 1; }
  // Expected of a launch on a chip.
  double cycles(const Chip& chip) const;
};

// Nothing where the kernel does not take the problem: wgrad, other types, what
// make_depthwise_axes() does not take, strides, several outputs of a channel, filters that are not
// 3, 5 or 7 high; channels that are not innermost, or not multiples of 8 as all other distances
// are; a chip without the instruction.
std::optional<Bands> make_bands(const Conv2dProblem& problem, Direction direction,
                                int32_t strip_rows, const Chip& chip);

// With the strips expected to be fastest first; with `all`, further ones, for tests.
std::vector<Bands> all_bands(const Conv2dProblem& problem, Direction direction, const Chip& chip,
                             bool all);

}  // namespace haloconv::depthwise
