// The bias's gradient: sums of grad_output over the pixels, by the warps beside the producer. They
// multiply it with ones, since additions one by one would hold back the warps that multiply.
#pragma once

#include <type_traits>

#include "conv2d/families/channels_last_wgrad/bias_matrices.h"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/mma.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// Two ones of a type.
template <class T>
inline constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;

// One warp's sums, of every third group of channels.
template <class T, class Args, Tile kTile>
__device__ __forceinline__ void sum_bias(const Args& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, int32_t warp, int32_t patches) {
  constexpr int kGroups = kBoxGroups * kTile.row_warpgroups;
  constexpr int kMost = (kGroups + kBiasWarps - 1) / kBiasWarps;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const uint32_t ones[] = {kOnes<T>, kOnes<T>};
  // Of the first groups all warps have one.
  const auto has = [&](int i) {
    return kBiasWarps * (i + 1) <= kGroups || warp + kBiasWarps * i < kGroups;
  };
  uint32_t rows[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int32_t group = warp + kBiasWarps * i;
    rows[i] = group / kBoxGroups * args.grad_output_bytes +
              bias_row<Args::kOutputRows>(lane, group % kBoxGroups);
  }
  float sums[kMost][4] = {};
  RingPosition at;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.full + at.stage, at.parity);
    const uint32_t stage = shared.stage(at.stage);
#pragma unroll 2
    for (int32_t step = 0; step < args.k_steps; ++step) {
      uint32_t matrices[kMost][4];
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (!has(i)) continue;
        const uint32_t row = bias_row_of_step<Args::kOutputRows>(stage + rows[i], step);
        if constexpr (Args::kOutputRows) {
          load_matrices(row, matrices[i]);
        } else {
          load_matrices_transposed(row, matrices[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (has(i)) multiply_add<T>(sums[i], matrices[i], ones);
      }
    }
    __syncwarp();
    shared.release(args, place, at.stage);
    at.advance(args.stages);
  }
  // All columns of a sum are the same.
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (lane % 4 != 0 || !has(i)) continue;
    float* const to = shared.bias + kGroupChannels * (warp + kBiasWarps * i) + lane / 4;
    to[0] = sums[i][0];
    to[8] = sums[i][2];
  }
  __syncwarp();
}

}  // namespace haloconv::sm90::channels_last_wgrad
