// Starts the kernels of splits.h: each file of instances has those of one tile.
#pragma once

#include <algorithm>

#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/splits_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_splits(const SplitArguments& args, const TensorMaps& maps, DataType type,
                   int multiprocessors, CUstream_st* stream) {
  static_assert(blocks_of(kTile) == 2 && threads_of(kTile) == kThreads);
  const auto start = [&]<class T>(T) {
    launch_blocks(channels_last_splits_kernel<T, kTile.pixels, kTile.channels, kTile.depth>,
                  std::min(args.args.tiles * args.splits, multiprocessors * blocks_of(kTile)),
                  kAlignment + args.args.stages * stage_bytes(kTile), stream, args, maps);
  };
  if constexpr (kTile.element_bytes == 4) {
    start(float{});
  } else {
    type == DataType::kFloat16 ? start(__half{}) : start(__nv_bfloat16{});
  }
}

}  // namespace haloconv::sm90::channels_last
