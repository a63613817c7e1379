// A warp's products: operands from a stage, sums in registers.
#pragma once

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/families/implicit_gemm/loader.cuh"
#include "cuda/mma.cuh"

namespace haloconv::implicit_gemm {

// As the matrix instruction has them: of each 16 pixels and 8 channels four.
template <int kIndex>
struct Sums {
  static constexpr int kPixelBlocks = kTiles[kIndex].warp_pixels / 16;
  static constexpr int kChannelBlocks = kTiles[kIndex].warp_channels / 8;
  float of[kPixelBlocks][kChannelBlocks][4];

  // Of each 16 pixels all.
  using Rows = float[kPixelBlocks][kChannelBlocks * 4];
  __device__ __forceinline__ Rows& rows() { return reinterpret_cast<Rows&>(of); }
};

// Operands of float32 are rounded here unless they were when they were stored.
template <class T, int kIndex, bool kRounds>
class Multiplier {
  static constexpr Tile kTile = kTiles[kIndex];
  using Sums = implicit_gemm::Sums<kIndex>;

 public:
  __device__ __forceinline__ Multiplier(int32_t warp, int32_t lane) {
    const int32_t pixel = warp / kTile.warps_along_channels() * kTile.warp_pixels;
    const int32_t channel = warp % kTile.warps_along_channels() * kTile.warp_channels;
    // Matrices of a: 8 pixels, the next 8, and both of the second unit. Of b: 8 channels, these of
    // the second unit, and both of the next 8 channels.
    pixels_ = place_of_unit(pixel + lane % 16, lane / 16);
    channels_ =
        kTile.pixels * kRowBytes + place_of_unit(channel + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  }

  // The products of kCount depths of a stage, from the first one on.
  template <int kCount>
  __device__ __forceinline__ void add(uint32_t stage, int first, Sums& sums) const {
#pragma unroll
    for (int depth = first; depth < first + kCount; ++depth) {
      // The units' numbers differ in a bit, and so do their places.
      const uint32_t pixels = stage + (pixels_ ^ depth * 2 * kUnitBytes);
      const uint32_t channels = stage + (channels_ ^ depth * 2 * kUnitBytes);
      uint32_t a[Sums::kPixelBlocks][4];
      uint32_t b[Sums::kChannelBlocks / 2][4];
#pragma unroll
      for (int i = 0; i < Sums::kPixelBlocks; ++i) {
        load_matrices(pixels + i * 16 * kRowBytes, a[i]);
        if constexpr (kRounds) round_operand<T>(a[i]);
      }
#pragma unroll
      for (int j = 0; j < Sums::kChannelBlocks / 2; ++j) {
        load_matrices(channels + j * 16 * kRowBytes, b[j]);
        if constexpr (kRounds) round_operand<T>(b[j]);
      }
#pragma unroll
      for (int i = 0; i < Sums::kPixelBlocks; ++i) multiply_add<T>(sums.of[i], a[i], b);
    }
  }

 private:
  uint32_t pixels_, channels_;  // this lane's rows, in a stage
};

}  // namespace haloconv::implicit_gemm
