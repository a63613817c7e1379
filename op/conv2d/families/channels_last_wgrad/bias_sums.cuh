// The bias's gradient: sums of grad_output over the pixels. Where tiles have one tap, whose stages
// last as long as their loads, the math warpgroups multiply grad_output with ones; where tiles have
// several, the warps beside the producer add it up.
#pragma once

#include "conv2d/families/channels_last_wgrad/bias_additions.cuh"
#include "conv2d/families/channels_last_wgrad/mainloop.cuh"
#include "conv2d/families/channels_last_wgrad/tiles.h"

namespace haloconv::sm90::channels_last_wgrad {

// Which ways a tile's kernels need: products if plans use the tile with one tap, additions if they
// use it with several taps.
template <class Args, Tile kTile>
inline constexpr bool kMultiplies = has_kind_of(kTile, Args::kOutputRows, true);
template <class Args, Tile kTile>
inline constexpr bool kAdds = has_kind_of(kTile, Args::kOutputRows, false);

template <class Args, Tile kTile>
__device__ __forceinline__ bool multiplies_for_bias(const Args& args) {
  return kMultiplies<Args, kTile> && (!kAdds<Args, kTile> || args.multiplies_for_bias);
}

// By one of the warps beside the producer.
template <class T, class Args, Tile kTile>
__device__ __forceinline__ void add_bias(const Args& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, int32_t warp, int32_t patches) {
  BiasAdditions<T, Args, kTile> sums(args, shared, warp);
  RingPosition at;
#pragma unroll 1
  for (; patches > 0; --patches) {
    mbarrier_wait(shared.full + at.stage, at.parity);
    sums.add_stage(at.stage);
    __syncwarp();
    shared.release(args, place, at.stage);
    at.advance(args.stages);
  }
  sums.store();
}

// By a math warpgroup that has multiplied its 64 output channels with ones.
template <Tile kTile>
__device__ __forceinline__ void store_products_of_bias(const Shared<kTile>& shared,
                                                       const BiasSums& sums, int32_t warpgroup) {
  const int32_t warp = static_cast<int32_t>(threadIdx.x) % 128 / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if (lane % 4 != 0) return;
  float* const to = shared.bias + 64 * warpgroup + 16 * warp + lane / 4;
  to[0] = sums[0];
  to[8] = sums[2];
}

}  // namespace haloconv::sm90::channels_last_wgrad
