// The bias's gradient where tiles have one tap: the warps beside the producer multiply grad_output
// with ones. Such stages last as long as their loads, so that the matrix instructions have time.
#pragma once

#include <type_traits>

#include "conv2d/families/channels_last_wgrad/bias_matrices.h"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"
#include "cuda/mma.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// One warp's sums, of every third group of channels.
template <class T, class Args, Tile kTile>
class BiasProducts {
 public:
  __device__ __forceinline__ BiasProducts(const Args& args, const Shared<kTile>& shared,
                                          int32_t warp)
      : shared_(shared),
        warp_(warp),
        lane_(static_cast<int32_t>(threadIdx.x) % 32),
        k_steps_(args.k_steps) {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int32_t group = warp + kBiasWarps * i;
      rows_[i] = group / kBoxGroups * args.grad_output_bytes + bias_row(lane_, group % kBoxGroups);
    }
  }

  __device__ __forceinline__ void add_stage(int32_t stage) {
    constexpr uint32_t kOne = std::is_same_v<T, __half> ? 0x3c00 : 0x3f80;
    const uint32_t ones[] = {kOne << 16 | kOne, kOne << 16 | kOne};
    uint32_t at = shared_.stage(stage);
#pragma unroll 2
    for (int32_t step = 0; step < k_steps_; ++step, at += kStepBytes) {
      uint32_t matrices[kMost][4];
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (has(i)) load_matrices_transposed(at + rows_[i], matrices[i]);
      }
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (has(i)) multiply_add<T>(sums_[i], matrices[i], ones);
      }
    }
  }

  // All columns of a sum are the same.
  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (lane_ % 4 != 0 || !has(i)) continue;
      float* const to = shared_.bias + kGroupChannels * (warp_ + kBiasWarps * i) + lane_ / 4;
      to[0] = sums_[i][0];
      to[8] = sums_[i][2];
    }
    __syncwarp();
  }

 private:
  static constexpr int kGroups = kBoxGroups * kTile.row_warpgroups;
  static constexpr int kMost = (kGroups + kBiasWarps - 1) / kBiasWarps;

  // Of the first groups all warps have one.
  __device__ __forceinline__ bool has(int i) const {
    return kBiasWarps * (i + 1) <= kGroups || warp_ + kBiasWarps * i < kGroups;
  }

  const Shared<kTile>& shared_;
  const int32_t warp_, lane_, k_steps_;
  uint32_t rows_[kMost];
  float sums_[kMost][4] = {};
};

}  // namespace haloconv::sm90::channels_last_wgrad
