// The bias's gradient: sums of grad_output over the pixels, by the warps beside the producer.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// One warp's sums over every third four of pixels, of which a lane takes one and eight channels of
// each box.
template <class T, Tile kTile>
__device__ __forceinline__ void sum_bias(const Arguments& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, int32_t warp, int32_t patches) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t unit = lane % 8;
  float sums[kTile.row_warpgroups][8] = {};
  RingPosition at;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.full + at.stage, at.parity);
    const unsigned char* const pixels = shared.ring + at.stage * shared.stage_bytes;
#pragma unroll 2
    for (int32_t i = warp; i < 4 * args.k_steps; i += kBiasWarps) {
      const int32_t pixel = 4 * i + lane / 8;
      const unsigned char* const eight = pixels + pixel * 128 + (unit ^ pixel % 8) * 16;
#pragma unroll
      for (int box = 0; box < kTile.row_warpgroups; ++box) {
        const auto values = *reinterpret_cast<const uint4*>(eight + box * args.grad_output_bytes);
        const uint32_t words[] = {values.x, values.y, values.z, values.w};
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[box][j] += Element<T>::value(words[j / 2], j % 2);
      }
    }
    __syncwarp();
    shared.release(args, place, at.stage);
    at.advance(args.stages);
  }
  float* const to = shared.bias + warp * kTile.rows() + unit * 8;
#pragma unroll
  for (int box = 0; box < kTile.row_warpgroups; ++box) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float sum = sums[box][j];
      sum += __shfl_xor_sync(~0u, sum, 8);
      sum += __shfl_xor_sync(~0u, sum, 16);
      if (lane < 8) to[box * 64 + j] = sum;
    }
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
