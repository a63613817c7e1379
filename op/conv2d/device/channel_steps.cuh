// What is done to a thread's sums of one step: one pixel's 32 channels with channels innermost, of
// which the thread has 8, two of each 8 as the matrix instruction leaves them.
#pragma once

#include "conv2d/device/channel_results.cuh"

namespace haloconv::sm90 {

inline constexpr int kStepChannels = 32;

// Two neighbouring channels of a per-channel operand, whose address may be any.
template <class T>
__device__ __forceinline__ float2 channel_pair(const void* operand, int32_t channel) {
  if constexpr (sizeof(T) == 2) {
    const auto* const at = static_cast<const uint16_t*>(operand) + channel;
    const uint32_t word = __ldg(at) | uint32_t{__ldg(at + 1)} << 16;
    return make_float2(Element<T>::value(word, 0), Element<T>::value(word, 1));
  } else {
    const auto* const at = static_cast<const float*>(operand) + channel;
    return make_float2(__ldg(at), __ldg(at + 1));
  }
}

// Calls body(value, number) with a thread's sums of a step and their channels' numbers, where there
// is such an operand.
template <class T, class Body>
__device__ __forceinline__ void with_operand(const Results& results, const void* operand,
                                             int32_t first_channel, int32_t t,
                                             float (&values)[4][2], Body body) {
  if (operand == nullptr) return;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int32_t channel = first_channel + j * 8 + t * 2;
    if (channel >= results.channels) continue;
    const float2 numbers = channel_pair<T>(operand, channel);
    values[j][0] = body(values[j][0], numbers.x);
    values[j][1] = body(values[j][1], numbers.y);
  }
}

// A thread's elements of a step as they lie in memory; `at` is channel 0 of the pixel.
template <class T>
struct StepResidual {
  uint4 words{};

  __device__ __forceinline__ void load(const Results& results, int64_t at, int32_t first_channel,
                                       bool exists, int32_t t) {
    const int32_t channel = first_channel + t * 8;
    if (!exists || channel >= results.channels) return;
    words = __ldg(reinterpret_cast<const uint4*>(static_cast<const T*>(results.fusion.residual) +
                                                 at + channel));
  }
  __device__ __forceinline__ void add_to(float (&values)[4][2], int32_t t) const {
    uint32_t mine[4] = {words.x, words.y, words.z, words.w};
    transpose_in_quad(mine, t);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[j][0] += Element<T>::value(mine[j], 0);
      values[j][1] += Element<T>::value(mine[j], 1);
    }
  }
};

template <>
struct StepResidual<float> {
  float2 pairs[4] = {};

  __device__ __forceinline__ void load(const Results& results, int64_t at, int32_t first_channel,
                                       bool exists, int32_t t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int32_t channel = first_channel + j * 8 + t * 2;
      if (!exists || channel >= results.channels) continue;
      pairs[j] = __ldg(reinterpret_cast<const float2*>(
          static_cast<const float*>(results.fusion.residual) + at + channel));
    }
  }
  __device__ __forceinline__ void add_to(float (&values)[4][2], int32_t) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[j][0] += pairs[j].x;
      values[j][1] += pairs[j].y;
    }
  }
};

template <class T>
__device__ __forceinline__ void write_step(const Results& results, const float (&values)[4][2],
                                           int64_t at, int32_t first_channel, bool exists,
                                           int32_t t) {
  if constexpr (sizeof(T) == 2) {
    const int32_t channel = first_channel + t * 8;
    write_pixel<T>(results, values, at + channel, exists && channel < results.channels, t);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int32_t channel = first_channel + j * 8 + t * 2;
      if (!exists || channel >= results.channels) continue;
      *reinterpret_cast<float2*>(static_cast<float*>(results.to) + at + channel) =
          make_float2(values[j][0], values[j][1]);
    }
  }
}

// A step's sums by its number, which a branch takes out of the registers. Steps go through the
// pixels of `Places` first, then to the next 32 channels.
template <int kFirst, int kSteps, int kRowBlocks, int kHalf>
__device__ __forceinline__ void take_sums(const float (&sums)[kRowBlocks][kHalf], int32_t step,
                                          float (&values)[4][2]) {
  if constexpr (kSteps == 1) {
    constexpr int kPixel = kFirst % Places<kRowBlocks>::kCount;
    constexpr int kChannel = kFirst / Places<kRowBlocks>::kCount * kStepChannels;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[j][0] = sums[kPixel / 2][kChannel / 2 + j * 4 + kPixel % 2 * 2];
      values[j][1] = sums[kPixel / 2][kChannel / 2 + j * 4 + kPixel % 2 * 2 + 1];
    }
  } else if (step < kFirst + kSteps / 2) {
    take_sums<kFirst, kSteps / 2>(sums, step, values);
  } else {
    take_sums<kFirst + kSteps / 2, kSteps - kSteps / 2>(sums, step, values);
  }
}

// One of an array that stays in registers.
template <class Value, int kCount>
__device__ __forceinline__ Value one_of(const Value (&values)[kCount], int32_t index) {
  Value value = values[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) value = index == i ? values[i] : value;
  return value;
}

}  // namespace haloconv::sm90
