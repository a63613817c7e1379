// The bias's gradient: sums of grad_output over the pixels, by the warps beside the producer.
#pragma once

#include "conv2d/families/channels_last_wgrad/bias_additions.cuh"
#include "conv2d/families/channels_last_wgrad/bias_products.cuh"
#include "conv2d/families/channels_last_wgrad/tiles.h"

namespace haloconv::sm90::channels_last_wgrad {

template <class BiasSums, class Args, Tile kTile>
__device__ __forceinline__ void sum_bias_by(const Args& args, const Shared<kTile>& shared,
                                            const ClusterPlace& place, int32_t warp,
                                            int32_t patches) {
  BiasSums sums(args, shared, warp);
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

// Which ways a tile's kernels need: products if plans use the tile with one tap, additions if they
// use it with several taps.
template <class Args, Tile kTile>
inline constexpr bool kMultiplies = has_kind_of(kTile, Args::kOutputRows, true);
template <class Args, Tile kTile>
inline constexpr bool kAdds = has_kind_of(kTile, Args::kOutputRows, false);

template <class T, class Args, Tile kTile>
__device__ __forceinline__ void sum_bias(const Args& args, const Shared<kTile>& shared,
                                         const ClusterPlace& place, int32_t warp, int32_t patches) {
  if constexpr (kMultiplies<Args, kTile>) {
    if (!kAdds<Args, kTile> || args.multiplies_for_bias) {
      sum_bias_by<BiasProducts<T, Args, kTile>>(args, shared, place, warp, patches);
      return;
    }
  }
  if constexpr (kAdds<Args, kTile>) {
    sum_bias_by<BiasAdditions<T, Args, kTile>>(args, shared, place, warp, patches);
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
