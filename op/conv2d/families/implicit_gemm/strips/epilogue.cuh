// From a warp's sums of a row of a strip to memory, by way of shared memory: strips.h.
#pragma once

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/implicit_gemm/strips/mainloop.cuh"

namespace haloconv::implicit_gemm {

using StripFactors = sm90::ChannelTable<kStripTile.channels>;

// A warp's results of some channels of a row.
template <class T>
class StripSlice {
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int32_t kPitch = strip_pitch(kElementBytes);
  static constexpr int kPixelBlocks = StripSums<T>::kPixelBlocks;

 public:
  static constexpr int kChannels = strip_channels(kElementBytes);

  // `to` is where the first channel's first pixel goes; `left` columns are left of the row.
  __device__ __forceinline__ StripSlice(uint32_t slice, T* to, int64_t channel_step,
                                        int32_t channels, bool begins_row, int32_t left,
                                        int32_t lane)
      : slice_(slice),
        to_(to),
        channel_step_(channel_step),
        channels_(channels),
        begins_row_(begins_row),
        left_(left),
        lane_(lane) {}

  // The sums of a matrix instruction's channels, from `first` on.
  __device__ __forceinline__ void stage(const float (&values)[kPixelBlocks][4], int first) const {
    uint32_t at[kEights];  // a channel of each eight
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      const int32_t channel = strip_channel(lane_) + k * 8;
      at[k] = slice_ + channel * kPitch + begin_of(destination(channel)) +
              lane_ % 4 * 2 * kElementBytes;
    }
    if constexpr (sizeof(T) == 2) {
      store_pairs(values, first / 8, at, [](uint32_t to, float left, float right) {
        store_shared_bits(to, Element<T>::pair(left, right));
      });
    } else if (((low_bits(to_) | low_bits_of_step()) & (2 * kElementBytes - 1)) == 0) {
      store_pairs(values, first / 8, at, [](uint32_t to, float left, float right) {
        const float pair[2] = {left, right};
        store_shared(to, pair);
      });
    } else {
      store_pairs(values, first / 8, at, [](uint32_t to, float left, float right) {
        store_shared_bits(to, __float_as_uint(left));
        store_shared_bits(to + kElementBytes, __float_as_uint(right));
      });
    }
  }

  // What all lanes have staged.
  __device__ __forceinline__ void write() const {
    constexpr int kLanes = wide_bytes(kElementBytes) / kVectorBytes;  // of a channel
    const int32_t vector = lane_ % kLanes;
    // In 16-bit types this has more registers than there are.
    if (sizeof(T) == 4 && low_bits_of_step() * (32 / kLanes) % kSectorBytes == 0) {
      write_vectors<kLanes>(vector);
    } else {
      write_parts<4, kLanes>(
          [&](const StripLine& of) { return of.vector(vector); },
          [](const StripLine& of, int32_t place) { return of.has_vector(place); });
    }
    constexpr int kWords = kSectorBytes / kWordBytes;
    if (begins_row_) {
      write_parts<1, kWords>(
          [&](const StripLine&) { return StripLine::first_word(lane_ % kWords); },
          [](const StripLine& of, int32_t place) { return of.has_first_word(place); });
    }
    if (left_ > strip_columns(kElementBytes)) return;
    write_parts<1, kWords>(
        [&](const StripLine& of) { return of.last_word(lane_ % kWords); },
        [](const StripLine& of, int32_t place) { return of.has_last_word(place); });
    if constexpr (sizeof(T) == 2) write_last_pixel();
  }

 private:
  static constexpr int kEights = kChannels / 8;
  // Of a lane's lines those that are on their way at once, where a warp has so many channels' at a
  // time.
  template <int kLines>
  static constexpr int kAtOnce = kChannels / kLines < 4 ? kChannels / kLines : 4;

  template <class Store>
  static __device__ __forceinline__ void store_pairs(const float (&values)[kPixelBlocks][4],
                                                     int eight, const uint32_t (&at)[kEights],
                                                     Store store) {
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) {
#pragma unroll
      for (int k = 0; k < kEights; ++k) {
        const float* pair = &values[i][2 * (eight + k)];
        store(at[k] + i * 8 * kElementBytes, pair[0], pair[1]);
      }
    }
  }

  __device__ __forceinline__ T* destination(int32_t channel) const {
    return to_ + channel * channel_step_;
  }
  static __device__ __forceinline__ uint32_t low_bits(const T* at) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at));
  }
  __device__ __forceinline__ uint32_t low_bits_of_step() const {
    return static_cast<uint32_t>(channel_step_ * kElementBytes);
  }
  static __device__ __forceinline__ int32_t begin_of(const T* line) {
    return static_cast<int32_t>(low_bits(line) % kSectorBytes);
  }
  __device__ __forceinline__ StripLine line_of(const T* line) const {
    return {begin_of(line), begins_row_, left_, kElementBytes};
  }

  // The vectors of lines of which a lane's all begin at the same place of a sector.
  template <int kLanes>
  __device__ __forceinline__ void write_vectors(int32_t vector) const {
    constexpr int kLines = 32 / kLanes, kOnWay = kAtOnce<kLines>;
    const int32_t channel = lane_ / kLanes;
    T* line = destination(channel);
    const StripLine of = line_of(line);
    const int32_t place = of.vector(vector);
    const int32_t channels = of.has_vector(place) ? channels_ - channel : 0;
    const uint32_t from = slice_ + channel * kPitch + place;
    line = at_bytes(line, place - of.begin);
#pragma unroll
    for (int i = 0; i < kChannels / kLines; i += kOnWay) {
      uint32_t words[kOnWay][4];
#pragma unroll
      for (int n = 0; n < kOnWay; ++n) {
        load_shared_bits(from + (i + n) * kLines * kPitch, words[n]);
      }
#pragma unroll
      for (int n = 0; n < kOnWay; ++n) {
        store_global_bits(line, words[n], (i + n) * kLines < channels);
        line += kLines * channel_step_;
      }
    }
  }

  // So many words by a lane, of so many lanes for a channel. place_of(line) says where they lie,
  // and is_wanted(line, place) whether they are written.
  template <int kCount, int kLanes, class PlaceOf, class IsWanted>
  __device__ __forceinline__ void write_parts(PlaceOf place_of, IsWanted is_wanted) const {
    constexpr int kLines = 32 / kLanes, kOnWay = kAtOnce<kLines>;
    int32_t channel = lane_ / kLanes;
    T* line = destination(channel);
    uint32_t from = slice_ + channel * kPitch;
#pragma unroll 1
    for (int i = 0; i < kChannels / kLines / kOnWay; ++i) {
      uint32_t words[kOnWay][kCount];
      T* to[kOnWay];
      bool wanted[kOnWay];
#pragma unroll
      for (int n = 0; n < kOnWay; ++n) {
        const StripLine of = line_of(line);
        const int32_t place = place_of(of);
        load_shared_bits(from + place, words[n]);
        to[n] = at_bytes(line, place - of.begin);
        wanted[n] = channel < channels_ && is_wanted(of, place);
        channel += kLines;
        line += kLines * channel_step_;
        from += kLines * kPitch;
      }
#pragma unroll
      for (int n = 0; n < kOnWay; ++n) store_global_bits(to[n], words[n], wanted[n]);
    }
  }

  // Of an odd number, half of a word. A lane has a channel.
  __device__ __forceinline__ void write_last_pixel() const {
    const int32_t channel = lane_ % kChannels, pixel = left_ - 1;
    T* const line = destination(channel);
    const int32_t place = begin_of(line) + pixel * kElementBytes;
    uint16_t bits;
    load_shared_bits(slice_ + channel * kPitch + place, bits);
    store_global_bits(
        line + pixel, bits,
        left_ % 2 != 0 && lane_ < min(kChannels, channels_) && line_of(line).has_last_pixel(place));
  }

  uint32_t slice_;
  T* to_;
  int64_t channel_step_;
  int32_t channels_;
  bool begins_row_;
  int32_t left_, lane_;
};

// A warp's row. `to` is where the first pixel of its first channel goes, `channels` how many there
// are from that on.
template <class T>
__device__ __forceinline__ void write_strip_row(const Arguments& args, const StripFactors& factors,
                                                int32_t first_factor, uint32_t slice, T* to,
                                                int32_t channels, bool begins_row, int32_t left,
                                                int32_t lane, StripSums<T>& sums) {
  constexpr int kInstructionChannels = 16;
  const int64_t channel_step = args.geometry.destination.c;
#pragma unroll
  for (int j = 0; j < StripSums<T>::kChannelBlocks; ++j) {
    const int32_t first = j * kInstructionChannels;
    if (channels <= first) break;
    auto& values = sums.of[j];
    const float2* const entries = &factors.entries[first_factor + first + strip_channel(lane)];
    const float2 of_channels[2] = {entries[0], entries[8]};
#pragma unroll
    for (auto& block : values) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        block[k] = block[k] * of_channels[k / 2].x + of_channels[k / 2].y;
      }
    }
    if (args.fusion.activation.kind != ActivationKind::kNone) {
      sm90::with_quick_activation<T>(args.quick, [&](auto activate) {
#pragma unroll
        for (auto& block : values) {
#pragma unroll
          for (float& value : block) value = activate(value);
        }
      });
    }
#pragma unroll
    for (int i = 0; i < kInstructionChannels; i += StripSlice<T>::kChannels) {
      const StripSlice<T> of(slice, to + (first + i) * channel_step, channel_step,
                             channels - first - i, begins_row, left, lane);
      of.stage(values, i);
      __syncwarp();
      of.write();
      __syncwarp();
    }
  }
}

}  // namespace haloconv::implicit_gemm
