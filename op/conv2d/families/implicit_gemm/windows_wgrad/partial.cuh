// From a warp's sums to the workspace.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

// Adds the sums to what the thread left in its own places of the workspace, unless they are the
// first, and clears them. has_ones: the last 8 columns are the bias's sums, eight times.
template <Tile kTile>
__device__ __forceinline__ void add_to_partial(const Arguments& args, const BlockPosition& at,
                                               const WarpPosition& warp, bool is_first,
                                               bool has_ones, Sums<kTile>& sums) {
  const Wgrad& g = args.geometry;
  int32_t row = at.row + warp.row + warp.lane / 4;
  float* line =
      args.partial + ((int64_t{at.split} * g.groups + at.group) * g.rows + row) * g.columns;
  // Where in its line one of a thread's sums belongs, or -1.
  const auto place_of = [&](int j, int k) {
    if (has_ones && j == Sums<kTile>::kColumnBlocks - 1) {
      return warp.lane % 4 == 0 && k == 0 ? g.columns - 1 : -1;
    }
    const int32_t tap = warp.tap_of(j * 8);
    const int32_t channel = warp.first_channel + warp.channel_of(j * 8) + warp.lane % 4 * 2 + k;
    return tap < g.taps_h * g.taps_w && channel < g.channels ? tap * g.channels + channel : -1;
  };
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < Sums<kTile>::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float before[Sums<kTile>::kColumnBlocks][2];
#pragma unroll
      for (int j = 0; j < Sums<kTile>::kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int32_t place = place_of(j, k);
          before[j][k] = !is_first && row < g.rows && place >= 0 ? line[place] : 0;
        }
      }
#pragma unroll
      for (int j = 0; j < Sums<kTile>::kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int32_t place = place_of(j, k);
          const float sum = before[j][k] + sums.of[0][j][half * 2 + k];
          if (row < g.rows && place >= 0) line[place] = sum;
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
