// Starts the kernels of strips: each file of instances has those of one tile.
#pragma once

#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/strips_instances.h"
#include "conv2d/families/channels_last/strips_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <StripTile kStrip>
void launch_strips(const Instance& instance, const StripLaunch& launch, const WindowMaps& maps,
                   cudaStream_t stream) {
  constexpr Tile kTile = kStrip.tile;
  const auto start = [&]<class T, bool kDgrad, Epilogue kEpilogue>() {
    launch_blocks<kStripThreads>(strips_kernel<T, kStrip.rows, kTile.pixels, kTile.channels,
                                               kTile.depth, kDgrad, kEpilogue != Epilogue::kNone>,
                                 launch.blocks, launch.shared_bytes, stream, launch.args, maps);
  };
  with_instance<kTile>(instance, start);
}

}  // namespace haloconv::sm90::channels_last
