// The bias's gradient: sums of grad_output over the pixels, by warps that have nothing else to do.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// One warp's sums of 64 output channels: a lane takes every fourth pixel of eight channels.
template <class T, Tile kTile>
__device__ __forceinline__ void sum_bias(const Arguments& args, const Shared<kTile>& shared,
                                         int32_t box, int32_t patches) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t unit = lane % 8;
  float sums[8] = {};
  RingPosition at;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.full + at.stage, at.parity);
    const unsigned char* const pixels =
        shared.ring + at.stage * shared.stage_bytes + box * args.grad_output_bytes;
#pragma unroll 4
    for (int32_t i = 0; i < 4 * args.k_steps; ++i) {
      const int32_t pixel = 4 * i + lane / 8;
      const auto values =
          *reinterpret_cast<const uint4*>(pixels + pixel * 128 + (unit ^ pixel % 8) * 16);
      const uint32_t words[] = {values.x, values.y, values.z, values.w};
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[j] += Element<T>::value(words[j / 2], j % 2);
    }
    __syncwarp();
    if (lane == 0) {
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                 cuda::ptx::space_shared, shared.empty + at.stage);
    }
    at.advance(args.stages);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    sums[j] += __shfl_xor_sync(~0u, sums[j], 8);
    sums[j] += __shfl_xor_sync(~0u, sums[j], 16);
    if (lane < 8) shared.bias[box * 64 + unit * 8 + j] = sums[j];
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
