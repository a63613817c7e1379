// Outputs near an infinity or NaN, computed once more: their products with a band's zeros are NaN
// too, in outputs whose taps do not meet them. What a band's own taps are makes no such NaN.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/bands_results.cuh"
#include "conv2d/families/depthwise/bands_site.cuh"
#include "conv2d/families/depthwise/bands_sums.cuh"

namespace haloconv::depthwise {

// Outputs to be computed, which a block's threads share out: each takes time, and those that one
// value spoils are of few threads.
struct BandsRepairList {
  static constexpr uint32_t kRoom = 2 * kSetBytes / 4 - 2;
  uint32_t rows;   // of outputs with a NaN: the bits row % 32
  uint32_t count;  // may be more than there is room for
  uint32_t entries[kRoom];
};
static_assert(sizeof(BandsRepairList) <= 2 * kSetBytes, "it lies where the planes were");

template <class T, int kTaps, bool kFused>
class BandsRepair {
 public:
  __device__ __forceinline__ BandsRepair(const BandsArguments<T>& args,
                                         const BandFilters<T>& filters)
      : args_(args), filters_(filters), block_(args.shape, static_cast<int32_t>(blockIdx.x)) {}

  // `seen`: the bits of the rows in which the thread wrote a NaN. By all threads of a block, which
  // have written all rows.
  __device__ __forceinline__ void run(BandsRepairList& list, uint32_t seen) const {
    const Bands& d = args_.shape;
    const auto thread = static_cast<int32_t>(threadIdx.x);
    if (thread == 0) list.rows = list.count = 0;
    __syncthreads();
    if (seen != 0) atomicOr(&list.rows, seen);
    __syncthreads();
    const uint32_t rows = list.rows;
    float2 weights[kMaxTaps];
    load_middle(thread, weights);
    for (int32_t row = 0; row < d.strip_rows;) {
      constexpr int32_t kRows = 8;
      for (int32_t taken = 0; taken < kRows && row < d.strip_rows; ++row) {
        if ((rows >> row % 32 & 1) == 0) continue;
        ++taken;
        suspect_row(list, thread, row, weights);
      }
      __syncthreads();
      const uint32_t count = min(list.count, BandsRepairList::kRoom);
      for (uint32_t i = threadIdx.x; i < count; i += kBandThreads) repair(list.entries[i]);
      __syncthreads();
      if (thread == 0) list.count = 0;
      __syncthreads();
    }
  }

 private:
  static constexpr int32_t kMaxTaps = 7;
  static constexpr int32_t kMiddle = kTaps / 2;

  struct Output {
    BandsSite site;
    int32_t row, column;
  };

  // An entry of the list: an output of a thread.
  static __device__ __forceinline__ uint32_t entry_of(int32_t thread, int32_t half, int32_t column,
                                                      int32_t row) {
    return thread | half << 8 | column << 9 | row << 10;
  }
  static_assert(kBandThreads <= 256);

  __device__ __forceinline__ T* destination(const Output& of) const {
    return args_.destination + of.site.offset(args_) + of.row * args_.destination_at.h +
           of.column * args_.destination_at.w;
  }

  // The middle row of a thread's two filters.
  __device__ __forceinline__ void load_middle(int32_t thread, float2 (&weights)[kMaxTaps]) const {
    const int32_t channel = thread % kBandWarps * kWarpChannels;
#pragma unroll
    for (int32_t s = 0; s < kMaxTaps; ++s) {
      weights[s] = s < filters_.taps_w ? weights_of(channel, kMiddle, s) : float2{};
    }
  }
  __device__ __forceinline__ float2 weights_of(int32_t channel, int32_t r, int32_t s) const {
    return {filters_.weight(channel, r, s), filters_.weight(channel + 1, r, s)};
  }

  // Lists a thread's outputs of a row that are NaN, but for those that the filter's middle row
  // makes NaN: where all is NaN or infinite, as after a step that overflowed, hardly any other is
  // left.
  __device__ __forceinline__ void suspect_row(BandsRepairList& list, int32_t thread, int32_t row,
                                              const float2 (&weights)[kMaxTaps]) const {
    uint32_t suspected = 0;  // a bit for each output
#pragma unroll
    for (int32_t i = 0; i < 4; ++i) {
      const Output output = {BandsSite(args_.shape, block_, thread, i / 2), row, i % 2};
      if (row >= output.site.rows_of(args_.shape, output.column)) continue;
      const float2 written = load_pair(destination(output));
      if (!isnan(written.x) && !isnan(written.y)) continue;
      float2 sum{};
#pragma unroll
      for (int32_t s = 0; s < kMaxTaps; ++s) {
        if (s < filters_.taps_w) add_tap(sum, pixel_of(output, kMiddle, s), weights[s]);
      }
      if (isnan(written.x) != isnan(sum.x) || isnan(written.y) != isnan(sum.y))
        suspected |= 1U << i;
    }
#pragma unroll 1
    for (; suspected != 0; suspected &= suspected - 1) {
      const int32_t i = __ffs(static_cast<int32_t>(suspected)) - 1;
      const uint32_t entry = entry_of(thread, i / 2, i % 2, row);
      const uint32_t at = atomicAdd(&list.count, 1);
      if (at < BandsRepairList::kRoom) {
        list.entries[at] = entry;
      } else {
        repair(entry);
      }
    }
  }

  __device__ __forceinline__ void repair(uint32_t entry) const {
    const auto thread = static_cast<int32_t>(entry & 0xff);
    const auto half = static_cast<int32_t>(entry >> 8 & 1);
    const Output output = {BandsSite(args_.shape, block_, thread, half),
                           static_cast<int32_t>(entry >> 10), static_cast<int32_t>(entry >> 9 & 1)};
    const int32_t channel = output.site.channel - block_.channel;
    float2 sum{};
#pragma unroll 1
    for (int32_t s = 0; s < filters_.taps_w; ++s) {
      float2 pixels[kTaps];
#pragma unroll
      for (int r = 0; r < kTaps; ++r) pixels[r] = pixel_of(output, r, s);
#pragma unroll
      for (int r = 0; r < kTaps; ++r) add_tap(sum, pixels[r], weights_of(channel, r, s));
    }
    T* const to = destination(output);
    const BandsEpilogue<T, kFused> epilogue(args_, output.site.channel);
    store_pair(to, epilogue.value(args_, sum, to));
  }

  static __device__ __forceinline__ void add_tap(float2& sum, const float2& pixel,
                                                 const float2& weight) {
    sum.x = fmaf(pixel.x, weight.x, sum.x);
    sum.y = fmaf(pixel.y, weight.y, sum.y);
  }

  // Of both channels; zeros beside the source, which an infinite weight makes NaN.
  __device__ __forceinline__ float2 pixel_of(const Output& of, int32_t r, int32_t s) const {
    const Bands& d = args_.shape;
    const int32_t y = of.site.h + of.row + d.h.origin + r;
    const int32_t x = of.site.w + of.column + d.w.origin + s;
    const bool inside = static_cast<uint32_t>(y) < static_cast<uint32_t>(d.h.source_size) &&
                        static_cast<uint32_t>(x) < static_cast<uint32_t>(d.w.source_size);
    if (!inside) return {};
    return load_pair(args_.source + of.site.image * args_.source_at.n + y * args_.source_at.h +
                     x * args_.source_at.w + of.site.channel);
  }

  const BandsArguments<T>& args_;
  const BandFilters<T>& filters_;
  BandsBlock block_;
};

// A function of its own, so that what it needs takes no registers from all else.
template <class T, int kTaps, bool kFused>
__device__ __noinline__ void repair_outputs(const BandsArguments<T>& args, BandFilters<T> filters,
                                            BandsRepairList& list, uint32_t seen) {
  BandsRepair<T, kTaps, kFused>(args, filters).run(list, seen);
}

}  // namespace haloconv::depthwise
