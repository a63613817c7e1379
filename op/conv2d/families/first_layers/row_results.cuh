// fprop's results if the output's rows are innermost: a thread's sums are neighbours in a row.
// They are put together in shared memory, and written by 16 bytes.
#pragma once

#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

// A warp's results: 16 channels of 64 pixels at a time. What is fused is added to whole vectors, so
// sums stay float32 until then.
template <class T, bool kFused>
class RowResults {
 public:
  __device__ __forceinline__ RowResults(const FpropArguments& args, unsigned char* staging)
      : args_(args), staging_(staging), lane_(static_cast<int32_t>(threadIdx.x) % 32) {}

  // From the channel `first_channel` on; `to` is where the row's first channel begins.
  __device__ __forceinline__ void write(const float (&sums)[32], int32_t first_channel, int64_t row,
                                        bool row_exists, int32_t first_q) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned char* const to = staging_ + (lane_ / 4 + half * 8) * kPitch;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float first = sums[j * 4 + half * 2], second = sums[j * 4 + half * 2 + 1];
        const int32_t pixel = j * 8 + lane_ % 4 * 2;
        if constexpr (sizeof(Staged) == 4) {
          *reinterpret_cast<float2*>(to + pixel * 4) = make_float2(first, second);
        } else {
          *reinterpret_cast<uint32_t*>(to + pixel * 2) = Element<T>::pair(first, second);
        }
      }
    }
    __syncwarp();
    const int32_t pixels = row_exists ? args_.sweep.q - first_q : 0;
    const int32_t unit = args_.pixel_unit;
    if (sizeof(T) == 2 && unit == 8) {
      write_staged<sizeof(T) == 2 ? 8 : 4>(first_channel, row + first_q, pixels);
    } else if (unit == 4) {
      write_staged<4>(first_channel, row + first_q, pixels);
    } else if (unit == 2) {
      write_staged<2>(first_channel, row + first_q, pixels);
    } else {
      write_staged<1>(first_channel, row + first_q, pixels);
    }
    __syncwarp();
  }

  static constexpr int32_t kBytes = staging_bytes_of_warp(sizeof(T), kFused);

 private:
  using Staged = std::conditional_t<kFused, float, T>;
  // Bytes from one channel to the next, so that the sums' places meet no bank twice.
  static constexpr int kPitch = kBytes / 16;

  template <class V, int kCount>
  struct alignas(kCount * sizeof(V) < 16 ? kCount * sizeof(V) : 16) Vector {
    V values[kCount];
  };

  template <int kUnit>
  __device__ __forceinline__ void write_staged(int32_t first_channel, int64_t first,
                                               int32_t pixels) const {
    constexpr int kLanes = 64 / kUnit < 32 ? 64 / kUnit : 32;  // of a channel
    constexpr int kStep = 32 / kLanes;                         // channels at a time
    const int32_t channels = args_.results.channels - first_channel;
#pragma unroll 1
    for (int column = lane_ % kLanes * kUnit; column < 64; column += kLanes * kUnit) {
      if (column >= pixels) continue;
#pragma unroll kFused ? 1 : 4
      for (int channel = lane_ / kLanes; channel < 16; channel += kStep) {
        if (channel >= channels) break;
        const auto staged = *reinterpret_cast<const Vector<Staged, kUnit>*>(
            staging_ + channel * kPitch + column * sizeof(Staged));
        const int64_t at = first + (first_channel + channel) * args_.destination_c + column;
        auto* const to =
            reinterpret_cast<Vector<T, kUnit>*>(static_cast<T*>(args_.results.to) + at);
        if constexpr (kFused) {
          *to = fused<kUnit>(staged, first_channel + channel, at);
        } else {
          *to = staged;
        }
      }
    }
  }

  template <int kUnit>
  __device__ __forceinline__ Vector<T, kUnit> fused(const Vector<float, kUnit>& sums,
                                                    int32_t channel, int64_t at) const {
    const Fusion& fusion = args_.results.fusion;
    const auto number = [&](const void* operand, float otherwise) {
      return operand == nullptr ? otherwise
                                : Element<T>::to_float(static_cast<const T*>(operand)[channel]);
    };
    // What is not fused changes nothing, not even the sign of a zero.
    const float bias = number(args_.results.bias, -0.0f), scale = number(fusion.scale, 1);
    const float shift = number(fusion.shift, -0.0f);
    Vector<T, kUnit> residual;
    if (fusion.residual != nullptr) {
      residual =
          *reinterpret_cast<const Vector<T, kUnit>*>(static_cast<const T*>(fusion.residual) + at);
    }
    float values[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      values[i] = (sums.values[i] + bias) * scale + shift;
      if (fusion.residual != nullptr) values[i] += Element<T>::to_float(residual.values[i]);
    }
    with_activation(fusion.activation, [&](auto activate) {
#pragma unroll
      for (float& value : values) value = activate(value);
    });
    Vector<T, kUnit> results;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) results.values[i] = T(values[i]);
    return results;
  }

  const FpropArguments& args_;
  unsigned char* const staging_;
  const int32_t lane_;
};

}  // namespace haloconv::sm90::first_layers
