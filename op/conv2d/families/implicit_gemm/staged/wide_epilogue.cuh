// From the sums of a patch of kWideColumns to lines in memory, by way of shared memory:
// wide_lines.h. It takes fewer instructions than any way straight from registers: they run once a
// tile, and to fetch them is a part of what results cost.
#pragma once

#include "conv2d/families/implicit_gemm/staged/wide_lines.h"
#include "conv2d/families/implicit_gemm/windows/epilogue.cuh"

namespace haloconv::implicit_gemm {

// A warp's results of kLineChannels channels.
template <class T>
class WideSlice {
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int32_t kPitch = wide_pitch(kElementBytes);
  static constexpr int kSums = 8;  // of a thread's 8 channels' pixels, eight apart

 public:
  // `to` is where the first channel's first pixel goes.
  __device__ __forceinline__ WideSlice(uint32_t slice, T* to, int64_t channel_step,
                                       int32_t channels, int32_t columns, int32_t lane)
      : slice_(slice),
        to_(to),
        channel_step_(channel_step),
        channels_(channels),
        columns_(min(columns, kWideColumns)),
        lane_(lane) {}

  // Two neighbouring channels of a pixel of each eight, of each 8 channels, so many times.
  template <int kBlocks>
  __device__ __forceinline__ void stage(const float (&values)[kSums][4][2]) const {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      uint32_t at[2];  // the two channels
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        at[k] = line(j * 8 + lane_ % 4 * 2 + k) + lane_ / 4 * kElementBytes;
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const int pixel = i * 8 * kElementBytes;
        if constexpr (sizeof(T) == 2) {
          const uint32_t pair = Element<T>::pair(values[i][j][0], values[i][j][1]);
          store_shared_bits(at[0] + pixel, static_cast<uint16_t>(pair));
          store_shared_bits(at[1] + pixel, static_cast<uint16_t>(pair >> 16));
        } else {
          store_shared_bits(at[0] + pixel, __float_as_uint(values[i][j][0]));
          store_shared_bits(at[1] + pixel, __float_as_uint(values[i][j][1]));
        }
      }
    }
  }

  // What all lanes have staged.
  __device__ __forceinline__ void write() const {
    write_sectors();
    const int32_t lane = lane_ % kWords;
    if (columns_ == kWideColumns) {
      const auto begins = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to_)) |
                          static_cast<uint32_t>(channel_step_ * kElementBytes);
      if (begins % kSectorBytes == 0) return;  // of all lines
      write_words([&](const WideLine& of) { return of.edge_word(lane, kElementBytes); },
                  [](const WideLine& of, int32_t) { return of.begin > 0; });
      return;
    }
    write_words([&](const WideLine&) { return WideLine::first_word(lane); },
                [](const WideLine& of, int32_t place) { return of.has_first_word(place); });
    write_words([&](const WideLine& of) { return of.last_word(lane); },
                [](const WideLine& of, int32_t place) { return of.has_last_word(place); });
    if constexpr (sizeof(T) == 2) write_last_pixel();
  }

 private:
  static constexpr int kWords = kSectorBytes / kWordBytes;

  __device__ __forceinline__ T* destination(int32_t channel) const {
    return to_ + channel * channel_step_;
  }
  static __device__ __forceinline__ int32_t begin_of(const T* line) {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(line) % kSectorBytes);
  }
  // Where a channel's line begins in shared memory.
  __device__ __forceinline__ uint32_t line(int32_t channel) const {
    return slice_ + channel * kPitch + begin_of(destination(channel));
  }
  __device__ __forceinline__ WideLine line_of(const T* line) const {
    const int32_t begin = begin_of(line);
    return {begin, begin + (columns_ * kElementBytes & -kWordBytes)};
  }

  __device__ __forceinline__ void write_sectors() const {
    constexpr int kLanes = wide_bytes(kElementBytes) / kVectorBytes;  // of a channel
    constexpr int kAtOnce = 4, kChannels = 32 / kLanes;
    int32_t channel = lane_ / kLanes;
    T* line = destination(channel);
    uint32_t from = slice_ + channel * kPitch;
#pragma unroll 1
    for (int i = 0; i < kLineChannels / kChannels / kAtOnce; ++i) {
      uint32_t vectors[kAtOnce][4];
      T* to[kAtOnce];
      bool wanted[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const WideLine of = line_of(line);
        const int32_t place = of.vector(lane_ % kLanes);
        load_shared_bits(from + place, vectors[n]);
        to[n] = at_bytes(line, place - of.begin);
        wanted[n] = channel < channels_ && of.has_vector(place);
        channel += kChannels;
        line += kChannels * channel_step_;
        from += kChannels * kPitch;
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) store_global_bits(to[n], vectors[n], wanted[n]);
    }
  }

  // place_of(line) says which word, and is_wanted(line, place) whether it is written.
  template <class PlaceOf, class IsWanted>
  __device__ __forceinline__ void write_words(PlaceOf place_of, IsWanted is_wanted) const {
    constexpr int kAtOnce = 4, kChannels = 32 / kWords;
    int32_t channel = lane_ / kWords;
    T* line = destination(channel);
    uint32_t from = slice_ + channel * kPitch;
#pragma unroll 1
    for (int i = 0; i < kLineChannels / kChannels / kAtOnce; ++i) {
      uint32_t words[kAtOnce];
      T* to[kAtOnce];
      bool wanted[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const WideLine of = line_of(line);
        const int32_t place = place_of(of);
        load_shared_bits(from + place, words[n]);
        to[n] = at_bytes(line, place - of.begin);
        wanted[n] = channel < channels_ && is_wanted(of, place);
        channel += kChannels;
        line += kChannels * channel_step_;
        from += kChannels * kPitch;
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) store_global_bits(to[n], words[n], wanted[n]);
    }
  }

  // Of an odd number, half of a word. A lane has a channel.
  __device__ __forceinline__ void write_last_pixel() const {
    const int32_t pixel = columns_ - 1;
    uint16_t bits;
    load_shared_bits(line(lane_) + pixel * kElementBytes, bits);
    store_global_bits(destination(lane_) + pixel, bits, columns_ % 2 != 0 && lane_ < channels_);
  }

  uint32_t slice_;
  T* to_;
  int64_t channel_step_;
  int32_t channels_, columns_, lane_;
};

// The results of a warp whose patch has kWideColumns columns.
template <class T, int kIndex>
__device__ __forceinline__ void write_wide_lines(const Arguments& args, const PatchPosition& at,
                                                 const sm90::Results& results,
                                                 const Factors<kIndex>& factors, int32_t warp,
                                                 int32_t lane, uint32_t slices,
                                                 Sums<kIndex>& sums) {
  constexpr Tile kTile = kTiles[kIndex];
  static_assert(kLineChannels == sm90::kStepChannels);
  constexpr int kStepBlocks =
      (kTile.warp_channels < kLineChannels ? kTile.warp_channels : kLineChannels) / 8;
  const WarpPatch<kIndex> patch(args, at, warp);
  const int64_t channel_step = args.geometry.destination.c;
  T* const first = static_cast<T*>(results.to) + patch.channel * channel_step + patch.pixel;
#pragma unroll
  for (int group = 0; group < kTile.warp_channels; group += kLineChannels) {
    const int32_t channels = patch.channels(results, group);
    if (channels <= 0) break;
    const sm90::StepFactors of_step(factors.of[patch.table], group, lane % 4);
#pragma unroll
    for (int row = 0; row < kTile.warp_pixels / kWideColumns; ++row) {
      float values[8][4][2];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        apply_factors<kIndex>(of_step, sums.rows()[row * 4 + i / 2], group, i % 2, values[i]);
      }
      if (args.fusion.activation.kind != ActivationKind::kNone) {
        sm90::with_quick_activation<T>(results.quick, [&](auto activate) {
#pragma unroll
          for (auto& step : values) sm90::activate_step(step, activate);
        });
      }
      if (row >= patch.rows) continue;
      const WideSlice<T> slice(slices + warp * wide_slice_bytes(sizeof(T)),
                               first + group * channel_step + row * patch.row_step, channel_step,
                               channels, patch.columns, lane);
      slice.template stage<kStepBlocks>(values);
      __syncwarp();
      slice.write();
      __syncwarp();
    }
  }
}

}  // namespace haloconv::implicit_gemm
