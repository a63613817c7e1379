// The residual that a fusion adds. It is copied asynchronously to where the results will be staged,
// and the copies start before the results are computed: they take no registers and, if a tile has
// many steps, no time.
#pragma once

#include "conv2d/families/halo/results.cuh"
#include "cuda/copy_async.cuh"

namespace haloconv::halo {

template <int kPixels>
class Residual : Results<float, kPixels> {
  using Base = Results<float, kPixels>;
  using Base::args_;
  using Base::lane_;
  using Base::staging_;

 public:
  __device__ __forceinline__ Residual(const Arguments& args, const SharedMemory& shared)
      : Base(args, shared) {}

  // Starts the copies for half 0 or 1 of the warp's channels. What was staged there must have been
  // read.
  __device__ __forceinline__ void begin(int half, const TilePosition& tile) const {
    if (args_.fusion.residual == nullptr) return;
    if (args_.vector == 4) {
      copy_by<4>(half, tile);
    } else if (args_.vector == 2) {
      copy_by<2>(half, tile);
    } else {
      copy_by<1>(half, tile);
    }
  }

 private:
  template <int kVector>
  __device__ __forceinline__ void copy_by(int half, const TilePosition& tile) const {
    if (args_.one_line) {
      copy_line<kVector>(half, tile);
    } else {
      copy_pixels<kVector>(half, tile);
    }
  }

  // For a tile that is a piece of one row: each address is a constant distance from the row's
  // first.
  template <int kVector>
  __device__ __forceinline__ void copy_line(int half, const TilePosition& tile) const {
    constexpr int kCount = (kPixels + 32 * kVector - 1) / (32 * kVector);
    const FoldedRows::Row at = this->first_row(tile, half);
    const typename Base::Output first = this->first_output(tile);
    const int32_t rows = this->has(tile, at, first) ? min(8, args_.rows - at.channel) : 0;
    const int32_t pixels = min(kPixels, args_.w.outputs - first.q);
    const float* line = this->first_of(static_cast<const float*>(args_.fusion.residual), tile, at);
    uint32_t staged = staging_ + lane_ * kVector * 4;
#pragma unroll 2
    for (int32_t row = 0; row < rows;
         ++row, line += args_.destination_c, staged += Base::kPitch * 4) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        copy_async_if<kVector>((i * 32 + lane_) * kVector < pixels, staged + i * 32 * kVector * 4,
                               at_bytes(line, lane_ * kVector * 4) + i * 32 * kVector);
      }
    }
  }

  template <int kVector>
  __device__ __forceinline__ void copy_pixels(int half, const TilePosition& tile) const {
    using Pixels = typename Base::template LanePixels<kVector>;
    const FoldedRows::Row at = this->first_row(tile, half);
    const int32_t rows = min(8, args_.rows - at.channel);
#pragma unroll 1
    for (int first_vector = 0; first_vector < Pixels::kTotal; first_vector += Pixels::kCount) {
      Pixels pixels;
      this->locate(tile, half, first_vector, pixels);
      const float* channel =
          this->first_of(static_cast<const float*>(args_.fusion.residual), tile, at);
      uint32_t staged = staging_ + (first_vector * 32 + lane_) * kVector * 4;
#pragma unroll 2
      for (int32_t row = 0; row < rows;
           ++row, channel += args_.destination_c, staged += Base::kPitch * 4) {
#pragma unroll
        for (int i = 0; i < pixels.kCount; ++i) {
          copy_async_if<kVector>(pixels.offset[i] >= 0, staged + i * 32 * kVector * 4,
                                 at_bytes(channel, pixels.offset[i]));
        }
      }
    }
  }
};

}  // namespace haloconv::halo
