// Starts the kernels: each file of instances has those of one tile.
#pragma once

#include <algorithm>

#include "conv2d/families/channels_last/kernel.cuh"
#include "conv2d/families/channels_last/launch_blocks.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_tile(const Instance& instance, const Arguments& args, const TensorMaps& maps,
                 int multiprocessors, cudaStream_t stream) {
  const auto start = [&]<class T, bool kDgrad, Epilogue kEpilogue>() {
    launch_blocks<threads_of(kTile)>(
        channels_last_kernel<T, kTile.pixels, kTile.channels, kTile.depth, kDgrad, kEpilogue>,
        std::min(args.tiles, multiprocessors * blocks_of(kTile)),
        kAlignment + args.stages * stage_bytes(kTile), stream, args, maps);
  };
  with_instance<kTile>(instance, start);
}

}  // namespace haloconv::sm90::channels_last
