// Starts the kernels of windows: each file of instances has those of one tile.
#pragma once

#include "conv2d/families/channels_last/instances.h"
#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/windows_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_windows(const Instance& instance, const WindowLaunch& launch, const WindowMaps& maps,
                    int multiprocessors, cudaStream_t stream) {
  const auto start = [&]<class T, bool kDgrad, Epilogue kEpilogue>() {
    launch_blocks(windows_kernel<T, kTile.pixels, kTile.channels, kTile.depth, kDgrad, kEpilogue>,
                  launch.args.grid(multiprocessors * blocks_of(kTile)), launch.shared_bytes, stream,
                  launch.args, maps);
  };
  with_instance<kTile>(instance, start);
}

}  // namespace haloconv::sm90::channels_last
