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

// Two channels' values of a per-channel operand, in a word, or `otherwise` where it is left out.
template <class T>
__device__ __forceinline__ uint32_t channel_pair(const void* values, int32_t channel, bool exists,
                                                 float otherwise) {
  if (values == nullptr || !exists) return Element<T>::pair(otherwise, otherwise);
  // Their address may be any.
  const auto* const at = static_cast<const uint16_t*>(values) + channel;
  return __ldg(at) | uint32_t{__ldg(at + 1)} << 16;
}

// A quad's four groups of 8 channels of one pixel; `at` is this thread's 16 bytes.
template <class T, bool kFused>
__device__ __forceinline__ void write_pixel(const Results& results, float (&values)[4][2],
                                            const uint32_t (&bias)[4], const uint32_t (&scale)[4],
                                            const uint32_t (&shift)[4], int64_t at, bool exists,
                                            int32_t t) {
  uint32_t words[4];
  if constexpr (kFused) {
    uint4 residual{};
    if (results.fusion.residual != nullptr && exists) {
      residual = __ldg(
          reinterpret_cast<const uint4*>(static_cast<const T*>(results.fusion.residual) + at));
    }
    words[0] = residual.x, words[1] = residual.y, words[2] = residual.z, words[3] = residual.w;
    transpose_in_quad(words, t);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& value = values[j][i];
        value = (value + Element<T>::value(bias[j], i)) * Element<T>::value(scale[j], i) +
                Element<T>::value(shift[j], i);
        if (results.fusion.residual != nullptr) value += Element<T>::value(words[j], i);
      }
    }
    with_activation(results.fusion.activation, [&](auto activate) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values[j][0] = activate(values[j][0]);
        values[j][1] = activate(values[j][1]);
      }
    });
  }
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
template <class T, bool kFused, int kRowBlocks, int kHalf>
  requires(sizeof(T) == 2)
__device__ __forceinline__ void write_results(const Results& results,
                                              const Places<kRowBlocks>& places,
                                              int32_t first_channel, int32_t lane,
                                              float (&sums)[kRowBlocks][kHalf]) {
  const int32_t t = lane % 4;
#pragma unroll
  for (int first = 0; first < 2 * kHalf; first += 32) {
    if (first_channel + first >= results.channels) break;
    uint32_t bias[4], scale[4], shift[4];
    if constexpr (kFused) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int32_t channel = first_channel + first + j * 8 + t * 2;
        const bool exists = channel < results.channels;
        bias[j] = channel_pair<T>(results.bias, channel, exists, 0);
        scale[j] = channel_pair<T>(results.fusion.scale, channel, exists, 1);
        shift[j] = channel_pair<T>(results.fusion.shift, channel, exists, 0);
      }
    }
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
      write_pixel<T, kFused>(results, values, bias, scale, shift, places.at[i] + channel,
                             places.inside[i] && exists, t);
    }
  }
}

// Two channels of a per-channel operand, whose address may be any.
__device__ __forceinline__ float2 channel_pair(const void* values, int32_t channel,
                                               float otherwise) {
  if (values == nullptr) return make_float2(otherwise, otherwise);
  const auto* const at = static_cast<const float*>(values) + channel;
  return make_float2(__ldg(at), __ldg(at + 1));
}

// Of float32 a quad's threads write 32 neighbouring bytes, as the instruction leaves them.
template <class T, bool kFused, int kRowBlocks, int kHalf>
  requires(sizeof(T) == 4)
__device__ __forceinline__ void write_results(const Results& results,
                                              const Places<kRowBlocks>& places,
                                              int32_t first_channel, int32_t lane,
                                              float (&sums)[kRowBlocks][kHalf]) {
#pragma unroll
  for (int j = 0; j < kHalf / 4; ++j) {
    const int32_t channel = first_channel + j * 8 + lane % 4 * 2;
    if (channel >= results.channels) break;
    float2 bias, scale, shift;
    if constexpr (kFused) {
      bias = channel_pair(results.bias, channel, 0);
      scale = channel_pair(results.fusion.scale, channel, 1);
      shift = channel_pair(results.fusion.shift, channel, 0);
    }
#pragma unroll
    for (int i = 0; i < Places<kRowBlocks>::kCount; ++i) {
      float2 value =
          make_float2(sums[i / 2][j * 4 + i % 2 * 2], sums[i / 2][j * 4 + i % 2 * 2 + 1]);
      const int64_t at = places.at[i] + channel;
      if (!places.inside[i]) continue;
      if constexpr (kFused) {
        value.x = (value.x + bias.x) * scale.x + shift.x;
        value.y = (value.y + bias.y) * scale.y + shift.y;
        if (results.fusion.residual != nullptr) {
          const auto residual = __ldg(reinterpret_cast<const float2*>(
              static_cast<const float*>(results.fusion.residual) + at));
          value.x += residual.x;
          value.y += residual.y;
        }
        with_activation(results.fusion.activation, [&](auto activate) {
          value.x = activate(value.x);
          value.y = activate(value.y);
        });
      }
      *reinterpret_cast<float2*>(static_cast<float*>(results.to) + at) = value;
    }
  }
}

}  // namespace haloconv::sm90
