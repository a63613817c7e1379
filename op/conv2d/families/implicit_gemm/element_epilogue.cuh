// From the sums to the destination element by element, by way of shared memory: neighbouring
// threads write neighbouring pixels.
#pragma once

#include "conv2d/families/implicit_gemm/epilogue.cuh"

namespace haloconv::implicit_gemm {

template <class T, int kIndex, class Position>
__device__ __forceinline__ void write_elements(const Arguments& args, const Position& at,
                                               int32_t warp, int32_t lane, unsigned char* shared,
                                               Sums<kIndex>& sums) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr int kChannels = kSliceChannels;  // at a time
  constexpr int kPitch = slice_channel_pitch(kTile);
  static_assert(kChannels * kTile.warp_pixels % (32 * kFusedAtOnce) == 0);
  const Gather& g = args.geometry;
  const ResultMemory<kIndex> memory(shared);
  memory.template fill<T>(args, at);
  __syncthreads();

  float* const slice = memory.slices + warp * slice_floats(kTile);
  const int32_t first_pixel = warp / kTile.warps_along_channels() * kTile.warp_pixels;
  int32_t first_channel = warp % kTile.warps_along_channels() * kTile.warp_channels;
  // Loops, not unrolled, so that each activation's code is there once: the sums come to the first
  // block of channels.
#pragma unroll 1
  for (int block = 0; block < Sums<kIndex>::kChannelBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < Sums<kIndex>::kPixelBlocks; ++i) {
      const float (&four)[4] = sums.of[i][0];
      float* const to = slice + lane % 4 * 2 * kPitch + i * 16 + lane / 4;
      to[0] = four[0];
      to[kPitch] = four[1];
      to[8] = four[2];
      to[kPitch + 8] = four[3];
    }
    __syncwarp();
#pragma unroll 1
    for (int first = lane; first < kChannels * kTile.warp_pixels; first += 32 * kFusedAtOnce) {
      float values[kFusedAtOnce];
      int64_t offsets[kFusedAtOnce];
      bool exists[kFusedAtOnce];
#pragma unroll
      for (int k = 0; k < kFusedAtOnce; ++k) {
        const int pixel = (first + k * 32) % kTile.warp_pixels;
        const int line = (first + k * 32) / kTile.warp_pixels;
        const int32_t channel = first_channel + line;
        const int64_t place = memory.places[first_pixel + pixel];
        exists[k] = place != kNowhere && at.channel + channel < g.rows;
        offsets[k] = place + (int64_t{at.group} * g.rows + at.channel + channel) * g.destination.c;
        const float residual =
            load_or<T>(exists[k] ? args.fusion.residual : nullptr, offsets[k], -0.0f);
        values[k] = (slice[line * kPitch + pixel] + memory.bias[channel]) * memory.scale[channel] +
                    memory.shift[channel] + residual;
      }
      with_activation(args.fusion.activation, [&](auto activation) {
#pragma unroll
        for (float& value : values) value = activation(value);
      });
#pragma unroll
      for (int k = 0; k < kFusedAtOnce; ++k) {
        if (exists[k]) store(static_cast<T*>(args.destination) + offsets[k], values[k]);
      }
    }
    __syncwarp();
    first_channel += kChannels;
#pragma unroll
    for (int i = 0; i < Sums<kIndex>::kPixelBlocks; ++i) {
#pragma unroll
      for (int j = 0; j + 1 < Sums<kIndex>::kChannelBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i][j + 1][k];
      }
    }
  }
}

}  // namespace haloconv::implicit_gemm
