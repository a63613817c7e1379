// From a warpgroup's sums to tensors with channels innermost, without shared memory.
//
// The matrix instruction leaves a thread two neighbouring channels of each 8. The four threads of a
// quad, which have a pixel's 8 channels between them, exchange words so that each holds 8
// neighbouring channels: 16 bytes, of four such groups one each, hence 64 bytes of a pixel at once.
#pragma once

#include "conv2d/device/channel_results.h"
#include "conv2d/device/element.cuh"

namespace haloconv::sm90 {

// Thread t's word j becomes thread j's word t; `t` counts in the quad.
__device__ __forceinline__ void transpose_in_quad(uint32_t (&words)[4], int32_t t) {
  const auto exchange = [&](uint32_t& low, uint32_t& high, int32_t distance) {
    const bool upper = (t & distance) != 0;
    const uint32_t got = __shfl_xor_sync(0xffffffff, upper ? low : high, distance);
    low = upper ? got : low;
    high = upper ? high : got;
  };
  exchange(words[0], words[1], 1);
  exchange(words[2], words[3], 1);
  exchange(words[0], words[2], 2);
  exchange(words[1], words[3], 2);
}

// A quad's four groups of 8 channels of one pixel; `at` is this thread's 16 bytes.
template <class T>
__device__ __forceinline__ void write_pixel(const Results& results, const float (&values)[4][2],
                                            int64_t at, bool exists, int32_t t) {
  uint32_t words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) words[j] = Element<T>::pair(values[j][0], values[j][1]);
  transpose_in_quad(words, t);
  if (exists) {
    *reinterpret_cast<uint4*>(static_cast<T*>(results.to) + at) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// A thread's pixels of so many blocks of 64: of each two.
template <int kRowBlocks>
struct Places {
  static constexpr int kCount = kRowBlocks * 2;
  int64_t at[kCount];  // elements to channel 0
  bool inside[kCount];
};

// The number of a thread's pixel in its block of 64.
__device__ __forceinline__ int32_t pixel_in_block(int32_t warp, int32_t lane, int32_t half) {
  return warp * 16 + lane / 4 + half * 8;
}

// Of 2 * kHalf channels: a thread has the sums of half of a block's pixels.
template <class T, int kRowBlocks, int kHalf>
  requires(sizeof(T) == 2)
__device__ __forceinline__ void write_results(const Results& results,
                                              const Places<kRowBlocks>& places,
                                              int32_t first_channel, int32_t lane,
                                              float (&sums)[kRowBlocks][kHalf]) {
  const int32_t t = lane % 4;
#pragma unroll
  for (int first = 0; first < 2 * kHalf; first += 32) {
    if (first_channel + first >= results.channels) break;
    const int32_t channel = first_channel + first + t * 8;
    const bool exists = channel < results.channels;
#pragma unroll
    for (int i = 0; i < Places<kRowBlocks>::kCount; ++i) {
      float values[4][2];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values[j][0] = sums[i / 2][first / 2 + j * 4 + i % 2 * 2];
        values[j][1] = sums[i / 2][first / 2 + j * 4 + i % 2 * 2 + 1];
      }
      write_pixel<T>(results, values, places.at[i] + channel, places.inside[i] && exists, t);
    }
  }
}

// Of float32 a quad's threads write 32 neighbouring bytes, as the instruction leaves them.
template <class T, int kRowBlocks, int kHalf>
  requires(sizeof(T) == 4)
__device__ __forceinline__ void write_results(const Results& results,
                                              const Places<kRowBlocks>& places,
                                              int32_t first_channel, int32_t lane,
                                              float (&sums)[kRowBlocks][kHalf]) {
#pragma unroll
  for (int j = 0; j < kHalf / 4; ++j) {
    const int32_t channel = first_channel + j * 8 + lane % 4 * 2;
    if (channel >= results.channels) break;
#pragma unroll
    for (int i = 0; i < Places<kRowBlocks>::kCount; ++i) {
      if (!places.inside[i]) continue;
      *reinterpret_cast<float2*>(static_cast<float*>(results.to) + places.at[i] + channel) =
          make_float2(sums[i / 2][j * 4 + i % 2 * 2], sums[i / 2][j * 4 + i % 2 * 2 + 1]);
    }
  }
}

}  // namespace haloconv::sm90
