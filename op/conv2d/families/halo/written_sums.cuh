// How a math warp's staged sums reach the output: 8 channels at a time, from rows in shared memory
// to global memory. A lane writes kVector neighbouring pixels at once, as many as the output's
// alignment allows.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/bounds.cuh"
#include "conv2d/families/halo/staged_sums.cuh"

namespace haloconv::halo {

template <class T, int kPixels, bool kSplit, bool kFused>
class WrittenSums : protected StagedSums<T, kPixels, kSplit> {
  static constexpr int kBytes = sizeof(T);

 protected:
  using Base = StagedSums<T, kPixels, kSplit>;
  template <int kVector, int kMost = 4>
  using LanePixels = typename Base::template LanePixels<kVector, kMost>;
  using Base::args_;
  using Base::first_of;
  using Base::first_output;
  using Base::first_row;
  using Base::has;
  using Base::kPitch;
  using Base::lane_;
  using Base::load_sums;
  using Base::locate;
  using Base::split_;
  using Base::staging_;

  // `round`: of the barriers between splits, kept from tile to tile.
  __device__ __forceinline__ WrittenSums(const Arguments& args, const SharedMemory& shared,
                                         int32_t split, uint32_t& round)
      : Base(args, shared, split, round) {}

  // Half 0 or 1 of the warp's channels.
  __device__ __forceinline__ void write(int half, const TilePosition& tile) const {
    if (args_.vector >= 4) {
      write_by<4>(half, tile);
    } else if (args_.vector == 2) {
      write_by<2>(half, tile);
    } else {
      write_by<1>(half, tile);
    }
  }

 private:
  template <int kVector>
  __device__ __forceinline__ void write_by(int half, const TilePosition& tile) const {
    if (kFused && !only_bounds(args_.fusion.activation.kind)) {
      write_half_fused<kVector>(half, tile);
    } else {
      write_half<kVector>(half, tile);
    }
  }

  // Writes the 8 staged channels, or this block's share of them. Several are read before the first
  // is written, which hides the latency of shared memory; unrolling further would only add
  // instructions to fetch.
  template <int kVector>
  __device__ __forceinline__ void write_half(int half, const TilePosition& tile) const {
    if (!kSplit && args_.one_line) {
      write_line<kVector>(half, tile);
    } else {
      write_pixels<kVector>(half, tile);
    }
  }

  // The same for a tile that is a piece of one row. Lanes begin at the memory's sectors of 32
  // bytes, not at the piece's first pixel, so that each sector but those at the piece's ends is
  // written by one store.
  template <int kVector>
  __device__ __forceinline__ void write_line(int half, const TilePosition& tile) const {
    constexpr int kAtOnce = 2;
    constexpr int kCount = kPixels / (32 * kVector) + 1;
    const FoldedRows::Row at = first_row(tile, half);
    const typename Base::Output first = first_output(tile);
    const int32_t rows = has(tile, at, first) ? args_.rows - at.channel : 0;
    const auto pixels = static_cast<uint32_t>(min(kPixels, args_.w.outputs - first.q));
    T* line = first_of(destination(), tile, at);
    const Bounds bounds(args_.fusion.activation);
    uint32_t staged = staging_;
#pragma unroll 1
    for (int32_t row = 0; row < 8; row += kAtOnce) {
      float values[kAtOnce][kCount][kVector];
      int32_t before[kAtOnce] = {};  // pixels from the sector's first to the piece's
      // As an unsigned number, a pixel before the first is beyond the last.
      const auto inside = [&](int j, int i) {
        return static_cast<uint32_t>((i * 32 + lane_) * kVector - before[j]) < pixels;
      };
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
        const T* const to = line + j * args_.destination_c;
        before[j] =
            static_cast<int32_t>(reinterpret_cast<uintptr_t>(to) / sizeof(T) % (32 / sizeof(T)));
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          int32_t pixel = (i * 32 + lane_) * kVector - before[j];
          if (i == 0) pixel = max(pixel, 0);
          if ((i + 1) * 32 * kVector > kPixels) pixel = min(pixel, kPixels - kVector);
          load_shared(staged + pixel * 4, values[j][i]);
        }
      }
      if constexpr (kFused) bounds.apply(values);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, line += args_.destination_c) {
        T* const to = at_bytes(line - before[j], lane_ * kVector * kBytes);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          store(to + i * 32 * kVector, values[j][i], row + j < rows && inside(j, i));
        }
      }
    }
  }

  template <int kVector>
  __device__ __forceinline__ void write_pixels(int half, const TilePosition& tile) const {
    constexpr int kCount = LanePixels<kVector>::kCount;
    constexpr int kAtOnce = kSplit ? 1 : kFused ? 2 : 4;  // as registers allow
    const int32_t share = kSplit ? 8 / args_.splits : 8;
    const int32_t first = kSplit ? split_ * share : 0;
    FoldedRows::Row at = first_row(tile, half);
    at.channel += first;
    const int32_t rows = min(share, args_.rows - at.channel);
    const int64_t channel_step = args_.destination_c;
    const Bounds bounds(args_.fusion.activation);
#pragma unroll 1
    for (int first_vector = 0; first_vector < LanePixels<kVector>::kTotal; first_vector += kCount) {
      LanePixels<kVector> pixels;
      locate(tile, half, first_vector, pixels);
      T* channel = first_of(destination(), tile, at);
      uint32_t staged = staging_ + first * kPitch * 4;
#pragma unroll 1
      for (int32_t row = 0; row < (kSplit ? rows : 8); row += kAtOnce) {
        float values[kAtOnce][kCount][kVector];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            load_sums(staged + pixels.staged(((first_vector + i) * 32 + lane_) * kVector),
                      values[j][i]);
          }
        }
        if constexpr (kFused) bounds.apply(values);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, channel += channel_step) {
          if (row + j >= rows) break;
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            store(at_bytes(channel, pixels.offset[i]), values[j][i], pixels.offset[i] >= 0);
          }
        }
      }
    }
  }

  // Writes the 8 staged channels through an activation that is more than a bound.
  template <int kVector>
  __device__ __forceinline__ void write_half_fused(int half, const TilePosition& tile) const {
    using Pixels = LanePixels<kVector, 4 / kVector>;
    constexpr int kCount = Pixels::kCount;
    constexpr int kAtOnce = 4;
    const FoldedRows::Row at = first_row(tile, half);
    const int32_t rows = min(8, args_.rows - at.channel);
    const int64_t channel_step = args_.destination_c;
#pragma unroll 1
    for (int first_vector = 0; first_vector < Pixels::kTotal; first_vector += kCount) {
      Pixels pixels;
      locate(tile, half, first_vector, pixels);
      T* channel = first_of(destination(), tile, at);
      uint32_t staged = staging_;
#pragma unroll 1
      for (int32_t row = 0; row < 8; row += kAtOnce) {
        float values[kAtOnce][kCount][kVector];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j, staged += kPitch * 4) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            load_sums(staged + pixels.staged(((first_vector + i) * 32 + lane_) * kVector),
                      values[j][i]);
          }
        }
        // A loop keeps one copy of each activation's code: the values move up to the first row.
#pragma unroll 1
        for (int j = 0; j < kAtOnce; ++j, channel += channel_step) {
          activate(values[0]);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            store(at_bytes(channel, pixels.offset[i]), values[0][i],
                  row + j < rows && pixels.offset[i] >= 0);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
#pragma unroll
              for (int k = 1; k < kAtOnce; ++k) values[k - 1][i][v] = values[k][i][v];
            }
          }
        }
      }
    }
  }

  template <int kVector>
  static __device__ __forceinline__ void store(T* at, const float (&values)[kVector], bool inside) {
    Element<T>::store(at, values, inside);
  }
  __device__ __forceinline__ T* destination() const { return static_cast<T*>(args_.destination); }

  template <int kCount, int kVector>
  __device__ __forceinline__ void activate(float (&values)[kCount][kVector]) const {
    with_activation(args_.fusion.activation, [&](auto activation) {
#pragma unroll
      for (auto& vector : values) {
#pragma unroll
        for (float& value : vector) value = activation(value);
      }
    });
  }
};

}  // namespace haloconv::halo
