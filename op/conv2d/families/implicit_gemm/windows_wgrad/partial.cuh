// From a warp's sums to the workspace.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

// Adds the sums to what the thread left in its own places of the workspace, unless they are the
// first, and clears them.
template <Tile kTile>
__device__ __forceinline__ void add_to_partial(const Arguments& args, const BlockPosition& at,
                                               const WarpPosition& warp, bool is_first,
                                               Sums<kTile>& sums) {
  const Wgrad& g = args.geometry;
  int32_t row = at.row + warp.row + warp.lane / 4;
  float* line =
      args.partial + ((int64_t{at.split} * g.groups + at.group) * g.rows + row) * g.columns;
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < Sums<kTile>::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float before[Sums<kTile>::kColumnBlocks][2];
#pragma unroll
      for (int j = 0; j < Sums<kTile>::kColumnBlocks; ++j) {
        const int32_t tap = warp.tap_of(j * 8);
        const int32_t channel = warp.first_channel + warp.channel_of(j * 8) + warp.lane % 4 * 2;
        const bool exists = row < g.rows && tap < g.taps_h * g.taps_w;
        const float* const from = line + (tap * g.channels + channel);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          before[j][k] = 0;
          if (!is_first && exists && channel + k < g.channels) before[j][k] = from[k];
        }
      }
#pragma unroll
      for (int j = 0; j < Sums<kTile>::kColumnBlocks; ++j) {
        const int32_t tap = warp.tap_of(j * 8);
        const int32_t channel = warp.first_channel + warp.channel_of(j * 8) + warp.lane % 4 * 2;
        const bool exists = row < g.rows && tap < g.taps_h * g.taps_w;
        float* const to = line + (tap * g.channels + channel);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float sum = before[j][k] + sums.of[0][j][half * 2 + k];
          if (exists && channel + k < g.channels) to[k] = sum;
        }
      }
      row += 8;
      line += int64_t{8} * g.columns;
    }
#pragma unroll
    for (int i = 0; i + 1 < Sums<kTile>::kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < Sums<kTile>::kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
    }
  }
  sums = {};
}

}  // namespace haloconv::windows_wgrad
