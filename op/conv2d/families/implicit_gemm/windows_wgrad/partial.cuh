// From a warp's sums to the workspace.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

__device__ __forceinline__ float sum_of_quad(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

// Adds the sums to what the thread left in its own places of the workspace, unless they are the
// first, and clears them. Of the bias's a thread has a part, or all.
__device__ __forceinline__ void add_to_partial(const Arguments& args, const BlockPosition& at,
                                               const WarpPosition& warp, bool is_first,
                                               bool sums_bias, bool has_part_of_bias, Sums& sums) {
  const Wgrad& g = args.geometry;
  int32_t row = at.row + warp.row + warp.lane / 4;
  float* line =
      args.partial + ((int64_t{at.split} * g.groups + at.group) * g.rows + row) * g.columns;
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < Sums::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < Sums::kColumnBlocks; ++j) {
        const int32_t tap = warp.tap_of(j * 8);
        const int32_t channel = warp.first_channel + warp.channel_of(j * 8) + warp.lane % 4 * 2;
        const bool exists = row < g.rows && tap < g.taps_h * g.taps_w;
        float* const to = line + (tap * g.channels + channel);
        const float (&two)[2] = reinterpret_cast<const float (&)[2]>(sums.of[0][j][half * 2]);
        if (exists && channel < g.channels) to[0] = (is_first ? 0 : to[0]) + two[0];
        if (exists && channel + 1 < g.channels) to[1] = (is_first ? 0 : to[1]) + two[1];
      }
      if (sums_bias) {
        const float sum = has_part_of_bias ? sum_of_quad(sums.bias[0][half]) : sums.bias[0][half];
        float& bias = line[g.columns - 1];
        if (warp.lane % 4 == 0 && row < g.rows) bias = (is_first ? 0 : bias) + sum;
      }
      row += 8;
      line += int64_t{8} * g.columns;
    }
#pragma unroll
    for (int i = 0; i + 1 < Sums::kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < Sums::kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) sums.bias[i][half] = sums.bias[i + 1][half];
    }
  }
  sums = {};
}

}  // namespace haloconv::windows_wgrad
