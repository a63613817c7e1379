// The bias's gradient where grad_output has its rows innermost.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/channels_last_wgrad/shared_memory.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// One warp's sums over every third eight of columns, of which a lane takes two channels of each
// box.
template <class T, Tile kTile>
__device__ __forceinline__ void sum_bias_of_rows(const RowsArguments& args,
                                                 const Shared<kTile>& shared,
                                                 const ClusterPlace& place, int32_t warp,
                                                 int32_t patches) {
  constexpr int32_t kRowBytes = kRowColumns * 2, kEights = kRowColumns / 8;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  float sums[kTile.row_warpgroups][2] = {};
  RingPosition at;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.full + at.stage, at.parity);
    const unsigned char* const stage = shared.ring + at.stage * shared.stage_bytes;
#pragma unroll 2
    for (int32_t i = warp; i < kEights * args.rows; i += kBiasWarps) {
      const unsigned char* const eight =
          stage + (i / kEights * 64 + lane) * kRowBytes + (i % kEights ^ lane % 8) * 16;
#pragma unroll
      for (int box = 0; box < kTile.row_warpgroups; ++box) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto values = *reinterpret_cast<const uint4*>(eight + box * args.grad_output_bytes +
                                                              half * 32 * kRowBytes);
          const uint32_t words[] = {values.x, values.y, values.z, values.w};
#pragma unroll
          for (int j = 0; j < 8; ++j) sums[box][half] += Element<T>::value(words[j / 2], j % 2);
        }
      }
    }
    __syncwarp();
    shared.release(args, place, at.stage);
    at.advance(args.stages);
  }
  float* const to = shared.bias + warp * kTile.rows() + lane;
#pragma unroll
  for (int box = 0; box < kTile.row_warpgroups; ++box) {
    to[box * 64] = sums[box][0];
    to[box * 64 + 32] = sums[box][1];
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
