// Which outputs a thread of the band matrices' kernels writes: two neighbouring columns, two
// channels each, of one segment and of the one 8 further, of every row of the strip.
#pragma once

#include "conv2d/families/depthwise/bands_arguments.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"

namespace haloconv::depthwise {

// Of the first segment (half 0) or the other.
struct BandsSite {
  int32_t image, h, w, channel;  // of the first row and column
  int32_t rows;                  // that the strip has; 0 if there is none of the thread's

  __device__ __forceinline__ BandsSite(const Bands& d, const BandsBlock& block, int32_t thread,
                                       int32_t half)
      : channel(block.channel + thread % kBandWarps * kWarpChannels) {
    const int32_t place = thread / kBandWarps;
    const int32_t segment = place / 4 + half * 8;
    const int32_t row = d.segments_across.quotient(segment);
    const int32_t strip = block.strip + row;
    image = d.strips_of_image.quotient(strip);
    h = (strip - image * d.image_strips) * d.strip_rows;
    w = (block.segment + segment - row * d.across) * kSegmentOutputs + place % 4 * 2;
    const bool exists = channel < d.channels.divisor && row < d.strips_at_once && strip < d.strips;
    rows = exists ? min(d.strip_rows, d.h.outputs - h) : 0;
  }

  // Rows that have the first column, or the second.
  __device__ __forceinline__ int32_t rows_of(const Bands& d, int32_t column) const {
    return w + column < d.w.outputs ? rows : 0;
  }

  // Elements from the destination's first.
  template <class T>
  __device__ __forceinline__ int64_t offset(const BandsArguments<T>& args) const {
    return image * args.destination_at.n + h * args.destination_at.h + w * args.destination_at.w +
           channel;
  }
};

}  // namespace haloconv::depthwise
