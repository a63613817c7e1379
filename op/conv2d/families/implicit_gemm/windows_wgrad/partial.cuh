// From a warp's sums to the workspace, where each block has a tile of its own. A thread's four sums
// of 16 rows and 8 columns lie side by side, and the threads of a warp beside each other.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

// Adds the sums to what the thread left there, unless they are the first, and clears them.
template <Tile kTile>
__device__ __forceinline__ void add_to_partial(const Arguments& args, const WarpPosition& warp,
                                               bool is_first, Sums<kTile>& sums) {
  constexpr int kColumnBlocks = Sums<kTile>::kColumnBlocks;
  auto* to = reinterpret_cast<float4*>(args.partial + int64_t{blockIdx.x} * kTile.elements()) +
             warp.number * (kRowBlocks * kColumnBlocks * 32) + warp.lane;
  // A loop, not unrolled: the sums come to the first block of rows.
#pragma unroll 1
  for (int block = 0; block < kRowBlocks; ++block) {
    float4 before[kColumnBlocks];
#pragma unroll
    for (int j = 0; j < kColumnBlocks; ++j) {
      before[j] = float4{};
      if (!is_first) before[j] = __ldcg(to + j * 32);  // an ordinary load makes ptxas spill
    }
#pragma unroll
    for (int j = 0; j < kColumnBlocks; ++j) {
      to[j * 32] = make_float4(before[j].x + sums.of[0][j][0], before[j].y + sums.of[0][j][1],
                               before[j].z + sums.of[0][j][2], before[j].w + sums.of[0][j][3]);
    }
    to += kColumnBlocks * 32;
#pragma unroll
    for (int i = 0; i + 1 < kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums.of[i][j][k] = sums.of[i + 1][j][k];
      }
    }
  }
  sums = {};
}

}  // namespace haloconv::windows_wgrad
