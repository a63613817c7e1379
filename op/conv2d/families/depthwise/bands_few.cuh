// What a few infinities and NaN make of outputs, where a block has met no more of them than
// kFewValues, and its weights are finite: they are put on a list, and a warp each adds, for every
// output that meets one, the products of all that it meets. Takes a fraction of the time in which
// the block would begin to go down rows again.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"
#include "conv2d/families/depthwise/bands_sums.cuh"
#include "conv2d/families/depthwise/channel_pair.cuh"

namespace haloconv::depthwise {

inline constexpr int kFewValues = 16, kFewMarks = 8;

// Of a pixel's channel: which of the block's channels and strips, row and column of the strip's
// source.
struct NonfiniteValue {
  int32_t channel, strip, row, column;
  float value;
};

class NonfiniteList {
 public:
  // `count`: a word of shared memory, 0. values: of kFewValues.
  __device__ __forceinline__ NonfiniteList(uint32_t* count, NonfiniteValue* values)
      : count_(count), values_(values) {}

  // Puts this thread's part of marked rows on the list.
  template <class T>
  __device__ __forceinline__ void find(const BandsArguments<T>& args, const BandsRows<T>& rows,
                                       uint32_t marked) {
    const Bands& d = args.shape;
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t place = thread / kBandEights;
    const int32_t strip = d.pairs_of_row.quotient(place);
    const int32_t column = (place - strip * d.pairs_of_row.divisor) * 2;
    for (; marked != 0; marked &= marked - 1) {
      const int32_t first = (__ffs(static_cast<int32_t>(marked)) - 1) << d.mark_shift;
      const int32_t end = first + (1 << d.mark_shift);
      for (int32_t row = first; row < end; row += 2) {
        // Both rows are on their way together.
        uint32_t found = rows.find_nonfinite(args, row);
        if (row + 1 < end) found |= rows.find_nonfinite(args, row + 1) << 16;
        for (; found != 0; found &= found - 1) {
          const int32_t bit = __ffs(static_cast<int32_t>(found)) - 1, in_row = bit % 16;
          const uint32_t at = atomicAdd(count_, 1);
          if (at >= kFewValues) return;
          values_[at] = {.channel = thread % kBandEights * 8 + in_row % 8,
                         .strip = strip,
                         .row = row + bit / 16,
                         .column = column + in_row / 8,
                         .value = rows.value_of(args, row + bit / 16, in_row)};
        }
      }
    }
  }

  // After all threads' parts.
  __device__ __forceinline__ bool has_all() const { return *count_ <= kFewValues; }

  template <bool kFused, class T, int kTaps>
  __device__ __forceinline__ void write_outputs(const BandsArguments<T>& args,
                                                const BandsBlock& block,
                                                const BandFilters& filters) const {
    const Bands& d = args.shape;
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const auto count = static_cast<int32_t>(*count_);
    for (int32_t i = thread / 32; i < count; i += kBandWarps) {
      const NonfiniteValue of = values_[i];
      const int32_t strip = block.strip + of.strip;
      const int32_t image = d.strips_of_image.quotient(strip);
      const int32_t h = (strip - image * d.image_strips) * d.strip_rows;
      const int32_t w = block.segment * kSegmentOutputs;
      const int32_t rows = min(d.strip_rows, d.h.outputs - h);
      const int32_t columns = min(d.across * kSegmentOutputs, d.w.outputs - w);
      for (int32_t tap = thread % 32; tap < kTaps * filters.taps_w; tap += 32) {
        const int32_t r = tap / filters.taps_w;
        const int32_t row = of.row - r, column = of.column - (tap - r * filters.taps_w);
        const float2 sums[1] = {{sum_at<T, kTaps>(filters, of, count, row, column), 0.0f}};
        write_pairs<kFused>(args, block.channel + of.channel, 1, sums, [&](int32_t) {
          return PairPlace{.exists = row >= 0 && row < rows && column >= 0 && column < columns,
                           .at = image * args.destination_at.n + (h + row) * args.destination_at.h +
                                 (w + column) * args.destination_at.w + block.channel + of.channel};
        });
      }
    }
  }

 private:
  // What the list's values add to an output of the same channel and strip as one of them.
  template <class T, int kTaps>
  __device__ __forceinline__ float sum_at(const BandFilters& filters, const NonfiniteValue& of,
                                          int32_t count, int32_t row, int32_t column) const {
    float sum = 0;
    for (int32_t i = 0; i < count; ++i) {
      const NonfiniteValue& met = values_[i];
      const int32_t r = met.row - row, s = met.column - column;
      if (met.channel != of.channel || met.strip != of.strip) continue;
      if (r < 0 || r >= kTaps || s < 0 || s >= filters.taps_w) continue;
      const uint32_t weight = filters.bits(of.channel, r, s);
      sum += met.value * unpack_pair(weight, static_cast<const T*>(nullptr)).x;
    }
    return sum;
  }

  uint32_t* const count_;
  NonfiniteValue* const values_;
};

}  // namespace haloconv::depthwise
