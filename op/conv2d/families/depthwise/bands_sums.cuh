// A warp's products: of two channels, a segment's rows with the filter's band matrices.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_filters.cuh"
#include "cuda/mma.cuh"

namespace haloconv::depthwise {

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

  // Adds a row of the source, whose pixels load_matrices() gives. `done` become the sums of the
  // outputs' row that no further one adds to. Each row of the filter adds to the sums of another
  // row of outputs.
  __device__ __forceinline__ void multiply(const uint32_t (&pixels)[4], float (&done)[4]) {
    const float none[4] = {};
    add_row(pixels, done, live_[0], kTaps - 1);
#pragma unroll
    for (int i = 1; i + 1 < kTaps; ++i) add_row(pixels, live_[i - 1], live_[i], kTaps - 1 - i);
    add_row(pixels, live_[kTaps - 2], none, 0);
  }

  // The sums of the outputs' row that the next row of the source completes.
  __device__ __forceinline__ float (&oldest())[4] { return live_[0]; }

 private:
  // Of value j of word i that a lane has of a band matrix.
  static __device__ __forceinline__ int32_t tap_of(int32_t lane, int i, int j) {
    return i * 8 + lane % 4 * 2 + j - lane / 4;
  }

  __device__ __forceinline__ void add_row(const uint32_t (&pixels)[4], float (&sums)[4],
                                          const float (&before)[4], int r) const {
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
