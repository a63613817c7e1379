// From a warp's sums to the workspace.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

__device__ __forceinline__ float sum_of_quad(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

// Of the bias gradient a thread has a part, or all. All loads first: each alone would wait for the
// memory.
template <class T, Tile kTile>
__device__ __forceinline__ void add_bias_to_partial(const Wgrad& g, float* line, int32_t row,
                                                    int32_t lane, bool is_first,
                                                    Sums<T, kTile>& sums) {
  float before[Sums<T, kTile>::kRowBlocks][2], sum[Sums<T, kTile>::kRowBlocks][2];
  const auto writes = [&](int block, int half) {
    return lane % 4 == 0 && row + block * 16 + half * 8 < g.rows;
  };
#pragma unroll
  for (int block = 0; block < Sums<T, kTile>::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float bias = sums.bias[block][half];
      sum[block][half] = std::is_same_v<T, float> ? sum_of_quad(bias) : bias;
      before[block][half] = 0;
      if (!is_first && writes(block, half)) {
        before[block][half] = line[int64_t{block * 16 + half * 8} * g.columns + g.columns - 1];
      }
    }
  }
#pragma unroll
  for (int block = 0; block < Sums<T, kTile>::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (writes(block, half)) {
        line[int64_t{block * 16 + half * 8} * g.columns + g.columns - 1] =
            before[block][half] + sum[block][half];
      }
    }
  }
}

// Adds the sums to what the thread left in its own places of the workspace, unless they are the
// first, and clears them.
template <class T, Tile kTile>
__device__ __forceinline__ void add_to_partial(const Arguments& args, const BlockPosition& at,
                                               const WarpPosition& warp, bool is_first,
                                               bool sums_bias, Sums<T, kTile>& sums) {
  const Wgrad& g = args.geometry;
  int32_t row = at.row + warp.row + warp.lane / 4;
  float* line =
      args.partial + ((int64_t{at.split} * g.groups + at.group) * g.rows + row) * g.columns;
  if (sums_bias) add_bias_to_partial(g, line, row, warp.lane, is_first, sums);
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < Sums<T, kTile>::kRowBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float before[Sums<T, kTile>::kColumnBlocks][2];
#pragma unroll
      for (int j = 0; j < Sums<T, kTile>::kColumnBlocks; ++j) {
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
      for (int j = 0; j < Sums<T, kTile>::kColumnBlocks; ++j) {
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
    for (int i = 0; i + 1 < Sums<T, kTile>::kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < Sums<T, kTile>::kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
    }
  }
  sums = {};
}

}  // namespace haloconv::windows_wgrad
