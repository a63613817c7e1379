// A warp's products: of two channels, a segment's rows with the filter's band matrices.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_words.cuh"
#include "conv2d/families/depthwise/bands_nonfinite.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"
#include "cuda/mma.cuh"

namespace haloconv::depthwise {

// The filters of a block's channels in shared memory: (channel, r, s).
template <class T>
struct BandFilters {
  uint32_t at;
  int32_t taps_w, weights;  // of a row, of a channel

  __device__ __forceinline__ uint32_t bits(int32_t channel, int32_t r, int32_t s) const {
    uint16_t bits;
    load_shared_bits(at + 2 * (channel * weights + r * taps_w + s), bits);
    return bits;
  }
  __device__ __forceinline__ float weight(int32_t channel, int32_t r, int32_t s) const {
    return static_cast<float>(of_bits<T>(static_cast<uint16_t>(bits(channel, r, s))));
  }
};

// Brings a block's filters; says whether this thread's are finite.
template <class T, class Arguments>
__device__ __forceinline__ bool bring_band_filters(const Arguments& args, int32_t first_channel,
                                                   uint32_t to) {
  const Bands& d = args.shape;
  const int32_t weights = d.h.taps * d.w.taps, taps_w = d.w.taps;
  const T* const from = args.filter + first_channel * args.filter_group + d.filter_first;
  const int32_t exist = d.channels.divisor - first_channel;
  bool finite = true;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kBandChannels * weights;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t channel = i / weights, tap = i - channel * weights;
    const int32_t r = tap / taps_w, s = tap - r * taps_w;
    T weight = static_cast<T>(0.0f);
    if (channel < exist) {
      weight = from[channel * args.filter_group + r * d.h.filter_step + s * d.w.filter_step];
    }
    finite = finite && isfinite(static_cast<float>(weight));
    uint16_t bits;
    memcpy(&bits, &weight, sizeof(bits));
    store_shared_bits(to + 2 * i, bits);
  }
  return finite;
}

// Of one channel: the filter rows' band matrices, and the sums of the outputs' rows that are under
// way, the oldest first. Of an output a lane has columns 2 * (lane % 4) and the next, of segments
// lane / 4 and 8 more (cuda/mma.cuh).
template <class T, int kTaps>
class BandSums {
 public:
  // Says of each of the filter's rows, in 4 bits, how many weights are not finite, NaN counted
  // twice. If there are any, all of the channel become kinds of weights.
  __device__ __forceinline__ uint32_t begin(const BandFilters<T>& filters, int32_t channel,
                                            int32_t lane, bool finite_weights) {
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t word = 0;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int32_t s = tap_of(lane, i, j);
          if (s < 0 || s >= filters.taps_w) continue;
          word |= filters.bits(channel, r, s) << (16 * j);
        }
        bands_[r][i] = word;
      }
    }
    if (finite_weights) return 0;
    const uint32_t nonfinite = nonfinite_weights(filters, channel, lane);
    if (nonfinite != 0) become_kinds();
    return nonfinite;
  }

  // Adds a row of the source, whose pixels load_matrices() gives. `done` become the sums of the
  // outputs' row that no further one adds to.
  __device__ __forceinline__ void multiply(const uint32_t (&pixels)[4], float (&done)[4]) {
    const float none[4] = {};
    multiply_row(done, live_[0], kTaps - 1, pixels);
#pragma unroll
    for (int i = 1; i + 1 < kTaps; ++i) {
      multiply_row(live_[i - 1], live_[i], kTaps - 1 - i, pixels);
    }
    multiply_row(live_[kTaps - 2], none, 0, pixels);
  }

  // The same where `nan_rows` says of which of the filter's rows all sums are NaN, and remain it.
  __device__ __forceinline__ void multiply(const uint32_t (&pixels)[4], uint32_t nan_rows,
                                           float (&done)[4]) {
    constexpr uint32_t kAllButFirst = (1u << kTaps) - 2;
    if ((nan_rows & kAllButFirst) != kAllButFirst) return multiply(pixels, done);
    const float none[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) done[i] = live_[0][i];
    multiply_row(live_[kTaps - 2], none, 0, pixels);
  }

  // Adds what multiply() was not given of a row of the source, since it is not finite. `nan_rows`
  // says of which of the filter's rows all sums were NaN before, and then are.
  __device__ __forceinline__ void add_nonfinite_pixels(const uint32_t (&pixels)[4], int32_t lane,
                                                       int32_t taps_w, uint32_t& nan_rows,
                                                       float (&done)[4]) {
    uint32_t taps[2];
    taps_of(hidden(lane), taps_w, taps);
    const auto counted = NonfinitePixels::of<T>(pixels, taps);
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
      if ((nan_rows >> r & 1) != 0) continue;
      const uint32_t signs[2] = {signs_as_half(bands_[r][0]), signs_as_half(bands_[r][1])};
      float (&sums)[4] = sums_of(r, done);
      add_counted(sums, counted.all, counted.infinite, signs);
      const bool are_nan = isnan(sums[0]) && isnan(sums[1]) && isnan(sums[2]) && isnan(sums[3]);
      if (__all_sync(~0u, are_nan) != 0) nan_rows |= 1u << r;
    }
  }

  // Adds the products with weights that are not finite, as begin() has counted them.
  __device__ __forceinline__ void add_nonfinite_weights(const uint32_t (&pixels)[4],
                                                        uint32_t counts, float (&done)[4]) {
    counts = hidden(counts);
    uint32_t signs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      signs[i] = signs_as_half(pixels[i] & ~nan_mask<T>(pixels[i]));
    }
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
      const uint32_t count = counts >> (4 * r) & 15;
      if (count == 0) continue;
      const float units = static_cast<float>(count) * 64;
      const uint32_t all = Element<__half>::pair(units, units), of_both[2] = {all, all};
      uint32_t infinite[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Bit 14 is of 2 and 4, in both types.
        const uint32_t kinds = hidden(bands_[r][i]);
        infinite[i] = (mask_of_signs(kinds << 1) & k64AsHalves) | (kinds & kSigns);
      }
      add_counted(sums_of(r, done), of_both, signs, infinite);
    }
  }

  // Ones, in float16, where a band matrix has taps.
  static __device__ __forceinline__ void taps_of(int32_t lane, int32_t taps_w,
                                                 uint32_t (&taps)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto one = [&](int j) {
        const int32_t s = tap_of(lane, i, j);
        return s >= 0 && s < taps_w ? 1.0f : 0.0f;
      };
      taps[i] = Element<__half>::pair(one(0), one(1));
    }
  }

 private:
  // Of value j of word i that a lane has of a band matrix.
  static __device__ __forceinline__ int32_t tap_of(int32_t lane, int i, int j) {
    return i * 8 + lane % 4 * 2 + j - lane / 4;
  }

  // Those that row r of the filter adds to.
  __device__ __forceinline__ float (&sums_of(int r, float (&done)[4]))[4] {
    return r == kTaps - 1 ? done : live_[kTaps - 2 - r];
  }

  static __device__ __forceinline__ uint32_t nonfinite_weights(const BandFilters<T>& filters,
                                                               int32_t channel, int32_t lane) {
    uint32_t counts = 0;
#pragma unroll 1
    for (int32_t i = lane; i < filters.weights; i += 32) {
      const int32_t r = i / filters.taps_w;
      const float kind = kind_of_weight(filters.weight(channel, r, i - r * filters.taps_w));
      if (fabsf(kind) >= 2) counts += (kind == 4 ? 2 : 1) << (4 * r);
    }
    return __reduce_add_sync(~0u, counts);
  }

  __device__ __forceinline__ void become_kinds() {
#pragma unroll
    for (auto& band : bands_) {
#pragma unroll
      for (uint32_t& word : band) {
        const auto kind = [&](int i) {
          return kind_of_weight(
              static_cast<float>(of_bits<T>(static_cast<uint16_t>(word >> (16 * i)))));
        };
        word = Element<T>::pair(kind(0), kind(1));
      }
    }
  }

  __device__ __forceinline__ void multiply_row(float (&sums)[4], const float (&before)[4], int r,
                                               const uint32_t (&pixels)[4]) const {
    float next[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) next[i] = before[i];
    multiply_add<T>(next, pixels, bands_[r]);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = next[i];
  }

  uint32_t bands_[kTaps][2];
  float live_[kTaps - 1][4] = {};
};

}  // namespace haloconv::depthwise
