// What a block computes: a run of tiles of pixels, for a tile of channels.
#pragma once

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

struct WgradWork {
  int32_t run, channel_tile;
  int32_t first_tile, end_tile;  // of the run

  __device__ __forceinline__ explicit WgradWork(const WgradArguments& args)
      : run(static_cast<int32_t>(blockIdx.x) / args.channel_tiles),
        channel_tile(static_cast<int32_t>(blockIdx.x) % args.channel_tiles),
        first_tile(args.sweep.first_tile(run)),
        end_tile(args.sweep.first_tile(run + 1)) {}
};

// Of forward passes, by tiles of kN channels.
template <int kN>
struct FpropWork {
  int32_t first_channel;
  int32_t first_tile, end_tile;  // of the run

  __device__ __forceinline__ explicit FpropWork(const FpropArguments& args) {
    const int32_t run = args.channel_tiles.quotient(static_cast<int32_t>(blockIdx.x));
    first_channel = (static_cast<int32_t>(blockIdx.x) - run * args.channel_tiles.divisor) * kN;
    first_tile = args.sweep.first_tile(run);
    end_tile = args.sweep.first_tile(run + 1);
  }
};

}  // namespace haloconv::sm90::first_layers
