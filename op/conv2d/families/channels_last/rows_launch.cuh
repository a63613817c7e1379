// Starts the kernels of rows.h: each file of instances has that of one tile.
#pragma once

#include <algorithm>

#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/rows_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_rows(const RowArguments& args, const TensorMaps& maps, int multiprocessors,
                 CUstream_st* stream) {
  static_assert(threads_of(kTile) == kThreads);
  const Arguments& of_split = args.shares.args;
  launch_blocks(channels_last_rows_kernel<kTile.pixels, kTile.channels, kTile.depth>,
                std::min(of_split.tiles * args.shares.splits, multiprocessors * blocks_of(kTile)),
                kAlignment + of_split.stages * stage_bytes(kTile), stream, args, maps);
}

}  // namespace haloconv::sm90::channels_last
