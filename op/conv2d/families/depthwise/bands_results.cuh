// A block's outputs, from the warps' sums to the destination: a warp has two channels of all
// pixels of a row, which are put together in shared memory so that a pixel's channels are written
// side by side.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"
#include "conv2d/families/depthwise/channel_pair.cuh"

namespace haloconv::depthwise {

template <class T, bool kFused>
class BandsResults {
 public:
  // What is kept of a warp's two channels of a pixel.
  static constexpr uint32_t kCellBytes = kFused ? 8 : 4;
  static constexpr int32_t kPitch = kBandWarps + 1;  // cells from a pixel to the next
  static constexpr uint32_t kBytes =
      kBandSegments * kSegmentOutputs * kPitch * kCellBytes;  // of a row

  __device__ __forceinline__ BandsResults(const BandsArguments<T>& args, const BandsBlock& block,
                                          uint32_t cells) {
    const Bands& d = args.shape;
    const auto thread = static_cast<int32_t>(threadIdx.x);
    put_ = kept(cells + (thread % 32 * kPitch + thread / 32) * kCellBytes);
    written_ = kept(cells + (thread / kBandWarps * kPitch + thread % kBandWarps) * kCellBytes);
    const int32_t place = thread / kBandWarps;
    channel_ = block.channel + thread % kBandWarps * kWarpChannels;
    const bool has_channels = channel_ < d.channels.divisor;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int32_t segment = place / 4 + i * 8;
      const int32_t row = d.segments_across.quotient(segment);
      const int32_t strip = block.strip + row;
      const int32_t image = d.strips_of_image.quotient(strip);
      const int32_t h = (strip - image * d.image_strips) * d.strip_rows;
      const int32_t w =
          (block.segment + segment - row * d.across) * kSegmentOutputs + place % 4 * 2;
      const bool exists = has_channels && row < d.strips_at_once && strip < d.strips;
      const int32_t rows = exists ? min(d.strip_rows, d.h.outputs - h) : 0;
#pragma unroll
      for (int j = 0; j < 2; ++j) rows_[i][j] = w + j < d.w.outputs ? rows : 0;
      to_[i] = reinterpret_cast<char*>(args.destination +
                                       (image * args.destination_at.n + h * args.destination_at.h +
                                        w * args.destination_at.w + channel_));
    }
    // Of the sums that this thread's warp has, and of the pixels that it writes.
    const int32_t warp_channel = block.channel + thread / 32 * kWarpChannels;
    warp_bias_ = kFused ? float2{} : pair_of(args.bias, warp_channel, d.channels.divisor, -0.0f);
    if constexpr (kFused) {
      bias_ = pair_of(args.bias, channel_, d.channels.divisor, -0.0f);
      scale_ = pair_of(args.fusion.scale, channel_, d.channels.divisor, 1.0f);
      shift_ = pair_of(args.fusion.shift, channel_, d.channels.divisor, -0.0f);
    }
  }

  // A warp's sums of an iteration, to the row `parity`.
  __device__ __forceinline__ void put(uint32_t parity,
                                      const float (&sums)[kWarpChannels][4]) const {
    const uint32_t to = put_ + parity * kBytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Lanes side by side, first and second columns apart: each bank of shared memory once.
      const uint32_t cell = to + (i % 2 * 64 + i / 2 * 32) * kPitch * kCellBytes;
      if constexpr (kFused) {
        const float both[2] = {sums[0][i], sums[1][i]};
        store_shared(cell, both);
      } else {
        store_shared_bits(cell,
                          Element<T>::pair(sums[0][i] + warp_bias_.x, sums[1][i] + warp_bias_.y));
      }
    }
  }

  // Leaves out so many rows.
  __device__ __forceinline__ void skip(const BandsArguments<T>& args, int32_t rows) {
#pragma unroll
    for (char*& to : to_) to += rows * args.destination_row_bytes;
  }

  // Writes the row `parity`, the `output`-th of each strip: all are written one after the other.
  __device__ __forceinline__ void write(const BandsArguments<T>& args, uint32_t parity,
                                        int32_t output) {
    const uint32_t from = written_ + parity * kBytes;
    if constexpr (!kFused) {
      uint32_t words[4][1];  // read together, so that none waits for another to be written
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        load_shared_bits(from + (i / 2 * 64 + i % 2 * 32) * kPitch * kCellBytes, words[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2, second = i / 2;
        char* const to = to_[half] + second * args.destination_pixel_bytes;
        const bool exists = output < rows_[half][second];
        store_global_bits(to, words[i], exists);
      }
    } else {
#pragma unroll 1
      for (int32_t i = 0; i < 4; ++i) {
        const int32_t half = i % 2, second = i / 2;
        const int32_t first_rows = half == 0 ? rows_[0][0] : rows_[1][0];
        const int32_t second_rows = half == 0 ? rows_[0][1] : rows_[1][1];
        if (output >= (second == 0 ? first_rows : second_rows)) continue;
        T* const to = reinterpret_cast<T*>((half == 0 ? to_[0] : to_[1]) +
                                           second * args.destination_pixel_bytes);
        const Fusion& fusion = args.fusion;
        float sum[2];
        load_shared(from + (second * 64 + half * 32) * kPitch * kCellBytes, sum);
        const void* const residual =
            fusion.residual == nullptr
                ? nullptr
                : static_cast<const T*>(fusion.residual) + (to - args.destination);
        const float2 added = factors_of<T>(residual, 0, kWarpChannels, -0.0f);
        float x = (sum[0] + bias_.x) * scale_.x + shift_.x + added.x;
        float y = (sum[1] + bias_.y) * scale_.y + shift_.y + added.y;
        with_activation(fusion.activation, [&](auto activate) {
          x = activate(x);
          y = activate(y);
        });
        *reinterpret_cast<uint32_t*>(to) = Element<T>::pair(x, y);
      }
    }
    skip(args, 1);
  }

 private:
  // Channels are whole eights.
  static __device__ __forceinline__ float2 pair_of(const void* operand, int32_t channel,
                                                   int32_t channels, float otherwise) {
    return factors_of<T>(channel < channels ? operand : nullptr, channel, kWarpChannels, otherwise);
  }

  uint32_t put_, written_;  // in shared memory, of the row 0: this thread's cells
  int32_t channel_;
  int32_t rows_[2][2];  // of outputs of the segment's strip that have the thread's columns
  char* to_[2];         // the first column of the next row
  float2 warp_bias_, bias_, scale_, shift_;
};

}  // namespace haloconv::depthwise
