// A warp's products: of two channels, a segment's rows with the filter's band matrices.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_words.cuh"
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
  // Without `wanted` the matrices are zeros.
  __device__ __forceinline__ void begin(const BandFilters<T>& filters, int32_t channel,
                                        int32_t lane, bool wanted) {
    const int32_t output = lane / 4;
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t word = 0;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int32_t s = i * 8 + lane % 4 * 2 + j - output;
          if (!wanted || s < 0 || s >= filters.taps_w) continue;
          word |= filters.bits(channel, r, s) << (16 * j);
        }
        bands_[r][i] = word;
      }
    }
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

  // All sums, `done` first: the oldest meets the filter's last row.
  static constexpr int kSums = kTaps * 4;
  __device__ __forceinline__ void get(const float (&done)[4], float* to) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) to[i] = i < 4 ? done[i] : live_[i / 4 - 1][i % 4];
  }
  __device__ __forceinline__ void set(float (&done)[4], const float* from) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) (i < 4 ? done[i] : live_[i / 4 - 1][i % 4]) = from[i];
  }

 private:
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
