// A block's outputs, from the warps' sums to the destination: a warp has two channels of all
// pixels of a row, which are put together in shared memory so that a pixel's channels are written
// side by side.
#pragma once

#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_words.cuh"
#include "conv2d/families/depthwise/bands_rows.cuh"
#include "conv2d/families/depthwise/bands_site.cuh"
#include "conv2d/families/depthwise/channel_pair.cuh"

namespace haloconv::depthwise {

// What becomes of the sums of a thread's two channels.
template <class T, bool kFused>
struct BandsEpilogue {
  float2 bias, scale, shift;

  __device__ __forceinline__ BandsEpilogue(const BandsArguments<T>& args, int32_t channel)
      : bias(pair_of(args, args.bias, channel, -0.0f)) {
    if constexpr (kFused) {
      scale = pair_of(args, args.fusion.scale, channel, 1.0f);
      shift = pair_of(args, args.fusion.shift, channel, -0.0f);
    }
  }

  // Of an output that is written to `to`.
  __device__ __forceinline__ float2 value(const BandsArguments<T>& args, const float2& sum,
                                          const T* to) const {
    float x = sum.x + bias.x, y = sum.y + bias.y;
    if constexpr (kFused) {
      const Fusion& fusion = args.fusion;
      const void* const residual =
          fusion.residual == nullptr
              ? nullptr
              : static_cast<const T*>(fusion.residual) + (to - args.destination);
      const float2 added = factors_of<T>(residual, 0, kWarpChannels, -0.0f);
      x = x * scale.x + shift.x + added.x;
      y = y * scale.y + shift.y + added.y;
      with_activation(fusion.activation, [&](auto activate) {
        x = activate(x);
        y = activate(y);
      });
    }
    return {x, y};
  }

  // Channels are whole eights.
  static __device__ __forceinline__ float2 pair_of(const BandsArguments<T>& args,
                                                   const void* operand, int32_t channel,
                                                   float otherwise) {
    return factors_of<T>(channel < args.shape.channels.divisor ? operand : nullptr, channel,
                         kWarpChannels, otherwise);
  }
};

template <class T, bool kFused>
class BandsResults {
 public:
  // What is kept of a warp's two channels of a pixel.
  using Cell = std::conditional_t<kFused, float2, uint32_t>;
  static constexpr uint32_t kBytes =
      kBandSegments * kSegmentOutputs * (kBandWarps + 1) * sizeof(Cell);  // of a row

  __device__ __forceinline__ BandsResults(const BandsArguments<T>& args, const BandsBlock& block,
                                          unsigned char* cells)
      // Not fused, the bias is added to the sums that the thread's warp has; else to those of the
      // pixels that it writes.
      : cells_(cells),
        epilogue_(args, kFused ? BandsSite(args.shape, block, thread(), 0).channel
                               : block.channel + thread() / 32 * kWarpChannels) {
    const Bands& d = args.shape;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const BandsSite site(d, block, thread(), i);
#pragma unroll
      for (int j = 0; j < 2; ++j) rows_[i][j] = site.rows_of(d, j);
      to_[i] = args.destination + site.offset(args);
    }
  }

  // A warp's sums of an iteration, to the row `parity`.
  __device__ __forceinline__ void put(uint32_t parity, int32_t warp, int32_t lane,
                                      const float (&sums)[kWarpChannels][4]) const {
    Cell* const to = row(parity) + lane * (kBandWarps + 1) + warp;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Lanes side by side, first and second columns apart: each bank of shared memory once.
      Cell& cell = to[(i % 2 * 64 + i / 2 * 32) * (kBandWarps + 1)];
      if constexpr (kFused) {
        cell = {sums[0][i], sums[1][i]};
      } else {
        cell = pack<T>(sums[0][i] + epilogue_.bias.x, sums[1][i] + epilogue_.bias.y);
      }
    }
  }

  // Writes the row `parity`, the `output`-th of each strip: all are written one after the other.
  __device__ __forceinline__ void write(const BandsArguments<T>& args, uint32_t parity,
                                        int32_t output) {
    const Cell* const from =
        row(parity) + thread() / kBandWarps * (kBandWarps + 1) + thread() % kBandWarps;
    bool may_have_one_nan = false;
    if constexpr (!kFused) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2, second = i / 2;
        words[i] = from[(second * 64 + half * 32) * (kBandWarps + 1)];
        const uint32_t word[1] = {words[i]};
        store_global_bits(to_[half] + second * args.destination_at.w, word,
                          output < rows_[half][second]);
      }
      may_have_one_nan = may_have_nan(words, to_[0]);
    } else {
#pragma unroll 1
      for (int32_t i = 0; i < 4; ++i) {
        const int32_t half = i % 2, second = i / 2;
        const int32_t first_rows = half == 0 ? rows_[0][0] : rows_[1][0];
        const int32_t second_rows = half == 0 ? rows_[0][1] : rows_[1][1];
        if (output >= (second == 0 ? first_rows : second_rows)) continue;
        T* const to = (half == 0 ? to_[0] : to_[1]) + second * args.destination_at.w;
        const float2 sum = from[(second * 64 + half * 32) * (kBandWarps + 1)];
        may_have_one_nan = may_have_one_nan || isnan(sum.x + sum.y);
        const float2 value = epilogue_.value(args, sum, to);
        *reinterpret_cast<uint32_t*>(to) = pack<T>(value.x, value.y);
      }
    }
    if (may_have_one_nan) rows_with_nan_ |= 1U << output % 32;
#pragma unroll
    for (T*& to : to_) to += args.destination_at.h;
  }

  // In which a thread's outputs may have a NaN: the bits row % 32.
  __device__ __forceinline__ uint32_t rows_with_nan() const { return rows_with_nan_; }

 private:
  static __device__ __forceinline__ int32_t thread() { return static_cast<int32_t>(threadIdx.x); }
  __device__ __forceinline__ Cell* row(uint32_t parity) const {
    return reinterpret_cast<Cell*>(cells_ + parity * kBytes);
  }
  unsigned char* cells_;
  BandsEpilogue<T, kFused> epilogue_;
  int32_t rows_[2][2];  // of outputs of the segment's strip that have the thread's columns
  T* to_[2];            // the first column of the next row
  uint32_t rows_with_nan_ = 0;
};

}  // namespace haloconv::depthwise
