// What the kernels of launch_vectors.cuh read: pixels of neighbouring channels, and a block's
// filters.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <type_traits>

#include "conv2d/device/fuse.cuh"
#include "conv2d/families/depthwise_direct/kernels.h"

namespace haloconv::depthwise_direct {

// Neighbouring channels of a pixel, two in a word.
template <int kChannels>
struct Cell {
  using Bits = std::conditional_t<kChannels == 8, uint4,
                                  std::conditional_t<kChannels == 4, uint2, uint32_t>>;
  static_assert(sizeof(Bits) == 2 * kChannels);
  uint32_t words[kChannels / 2];
};

// Zeros unless `inside`.
template <int kChannels, class T>
__device__ __forceinline__ Cell<kChannels> load_cell(const T* at, bool inside) {
  using Bits = typename Cell<kChannels>::Bits;
  const Bits bits = inside ? __ldg(reinterpret_cast<const Bits*>(at)) : Bits{};
  Cell<kChannels> cell;
  memcpy(cell.words, &bits, sizeof(bits));
  return cell;
}

// Zeros unless 0 <= column < columns: by a predicate of one instruction right before the load, for
// those of a whole window are more than there are.
template <int kChannels>
__device__ __forceinline__ Cell<kChannels> load_column(const char* at, int32_t column,
                                                       int32_t columns) {
  Cell<kChannels> cell;
  auto& words = cell.words;
  if constexpr (kChannels == 8) {
    asm volatile(
        "{\n"
        ".reg .pred inside;\n"
        "setp.lt.u32 inside, %5, %6;\n"
        "mov.b32 %0, 0;\n"
        "mov.b32 %1, 0;\n"
        "mov.b32 %2, 0;\n"
        "mov.b32 %3, 0;\n"
        "@inside ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
        : "l"(at), "r"(column), "r"(columns));
  } else if constexpr (kChannels == 4) {
    asm volatile(
        "{\n"
        ".reg .pred inside;\n"
        "setp.lt.u32 inside, %3, %4;\n"
        "mov.b32 %0, 0;\n"
        "mov.b32 %1, 0;\n"
        "@inside ld.global.nc.v2.b32 {%0, %1}, [%2];\n"
        "}\n"
        : "=&r"(words[0]), "=&r"(words[1])
        : "l"(at), "r"(column), "r"(columns));
  } else {
    asm volatile(
        "{\n"
        ".reg .pred inside;\n"
        "setp.lt.u32 inside, %2, %3;\n"
        "mov.b32 %0, 0;\n"
        "@inside ld.global.nc.b32 %0, [%1];\n"
        "}\n"
        : "=&r"(words[0])
        : "l"(at), "r"(column), "r"(columns));
  }
  return cell;
}

template <int kChannels, class T>
__device__ __forceinline__ void store_cell(T* at, const Cell<kChannels>& cell) {
  typename Cell<kChannels>::Bits bits;
  memcpy(&bits, cell.words, sizeof(bits));
  *reinterpret_cast<typename Cell<kChannels>::Bits*>(at) = bits;
}

template <class T>
__device__ __forceinline__ float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    __half2 both;
    memcpy(&both, &word, sizeof(both));
    return __half22float2(both);
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000)};
  }
}

template <class T>
__device__ __forceinline__ uint32_t pack(const float2& values) {
  const std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162> both = {
      static_cast<T>(values.x), static_cast<T>(values.y)};
  uint32_t word;
  memcpy(&word, &both, sizeof(word));
  return word;
}

// From a tap's weights to the next one's: four more than a block's channels, so that neighbouring
// threads, which have a channel's taps, meet different banks.
__device__ __forceinline__ int32_t filter_pitch(const Arguments& d, int32_t channels_of_lane) {
  return d.lanes.divisor * channels_of_lane + kFilterGap;
}

// (tap, channel), in float32, and behind them the channels' biases.
template <int kSide, int kChannels, class T>
__device__ __forceinline__ void bring_vector_filters(const KernelArguments<T>& args,
                                                     int32_t first_channel, float* shared) {
  const Arguments& d = args.shape;
  constexpr int kTaps = kSide * kSide, kAtOnce = 8;
  const int32_t pitch = filter_pitch(d, kChannels);
  const int32_t count =
      min(d.lanes.divisor * kChannels, d.channels - first_channel) * kTaps;  // whole eights
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < count / kTaps; i += kVectorThreads) {
    shared[kTaps * pitch + i] = load_or<T>(args.bias, first_channel + i, -0.0f);
  }
  if (d.filter_order != FilterOrder::kOther) {
    const bool turned = d.filter_order == FilterOrder::kBackward;
    const T* const from = args.filter + int64_t{first_channel} * kTaps;
    for (int32_t i = thread * kAtOnce; i < count; i += kVectorThreads * kAtOnce) {
      const auto cell = load_cell<kAtOnce>(from + i, true);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int32_t channel = (i + j) / kTaps, tap = (i + j) % kTaps;
        const float2 both = unpack<T>(cell.words[j / 2]);
        shared[(turned ? kTaps - 1 - tap : tap) * pitch + channel] = j % 2 == 0 ? both.x : both.y;
      }
    }
    return;
  }
  const T* const from = args.filter + d.filter_first + first_channel * d.filter_channel;
#pragma unroll 4
  for (int32_t i = thread; i < count; i += kVectorThreads) {
    const int32_t channel = i / kTaps, tap = i % kTaps;
    shared[tap * pitch + channel] =
        load(from + channel * d.filter_channel + tap / kSide * d.filter_row +
             tap % kSide * d.filter_column);
  }
}

}  // namespace haloconv::depthwise_direct
