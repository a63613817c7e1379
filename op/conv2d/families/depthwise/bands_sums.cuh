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
struct BandFilters {
  uint32_t at;
  int32_t taps_w, weights;  // of a row, of a channel

  __device__ __forceinline__ uint32_t bits(int32_t channel, int32_t r, int32_t s) const {
    uint16_t bits;
    load_shared_bits(at + 2 * (channel * weights + r * taps_w + s), bits);
    return bits;
  }
};

// Whether this thread's part of the filters is finite.
template <class T>
__device__ __forceinline__ bool is_finite_filter(const BandFilters& filters) {
  bool finite = true;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kBandChannels * filters.weights;
       i += kBandThreads) {
    finite = finite && (filters.bits(0, 0, i) & kInfinity<T>) != kInfinity<T>;
  }
  return finite;
}

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
// lane / 4 and 8 more (cuda/mma.cuh). T: of what is multiplied.
template <class T, int kTaps>
class BandSums {
 public:
  __device__ __forceinline__ void begin(const BandFilters& filters, int32_t channel, int32_t lane) {
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
  }

  // The filter's weights, which begin() has brought, become codes.
  template <class Weight>
  __device__ __forceinline__ void become_codes(int32_t lane, int32_t taps_w) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t taps = 0;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int32_t s = tap_of(lane, i, j);
        if (s >= 0 && s < taps_w) taps |= 0xffffu << (16 * j);
      }
#pragma unroll
      for (int r = 0; r < kTaps; ++r) {
        bands_[r][i] = marked_codes_of<Weight>(bands_[r][i]) & taps;
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& row : live_) {
#pragma unroll
      for (float& sum : row) sum = 0;
    }
  }

  // Adds a row of the source, whose pixels load_matrices() gives. `done` become the sums of the
  // outputs' row that no further one adds to.
  __device__ __forceinline__ void multiply(const uint32_t (&pixels)[4], float (&done)[4]) {
    go_down(done, [&](float (&sums)[4], int r) { multiply_add<T>(sums, pixels, bands_[r]); });
  }

  // The same of codes with marks: adds products of which a factor is marked.
  __device__ __forceinline__ void multiply_marked(const uint32_t (&pixels)[4], float (&done)[4]) {
    uint32_t marked[4], others[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      marked[i] = marked_codes(pixels[i]);
      others[i] = other_codes(pixels[i]);
    }
    go_down(done, [&](float (&sums)[4], int r) {
      const uint32_t band[2] = {hidden(bands_[r][0]), hidden(bands_[r][1])};
      const uint32_t weights[2] = {band[0] & kMagnitudes, band[1] & kMagnitudes};
      const uint32_t marked_weights[2] = {marked_codes(band[0]), marked_codes(band[1])};
      multiply_add<T>(sums, marked, weights);
      multiply_add<T>(sums, others, marked_weights);
    });
  }

 private:
  // Of value j of word i that a lane has of a band matrix.
  static __device__ __forceinline__ int32_t tap_of(int32_t lane, int i, int j) {
    return i * 8 + lane % 4 * 2 + j - lane / 4;
  }

  // Each row of the filter adds to the sums of another row of outputs.
  template <class Add>
  __device__ __forceinline__ void go_down(float (&done)[4], Add add) {
    const float none[4] = {};
    add_row(done, live_[0], kTaps - 1, add);
#pragma unroll
    for (int i = 1; i + 1 < kTaps; ++i) add_row(live_[i - 1], live_[i], kTaps - 1 - i, add);
    add_row(live_[kTaps - 2], none, 0, add);
  }
  template <class Add>
  static __device__ __forceinline__ void add_row(float (&sums)[4], const float (&before)[4], int r,
                                                 Add add) {
    float next[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) next[i] = before[i];
    add(next, r);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = next[i];
  }

  uint32_t bands_[kTaps][2];
  float live_[kTaps - 1][4] = {};
};

}  // namespace haloconv::depthwise
