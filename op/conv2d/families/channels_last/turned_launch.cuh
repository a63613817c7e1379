// Starts the kernels of turned.h: each file of instances has that of one tile.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "conv2d/families/channels_last/launch_blocks.cuh"
#include "conv2d/families/channels_last/turned_kernel.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_turned(bool dgrad, const Arguments& args, const TensorMaps& maps, int multiprocessors,
                   CUstream_st* stream) {
  const auto start = [&]<bool kDgrad>() {
    if constexpr (!is_turned(kTile, kDgrad)) {
      throw std::logic_error("haloconv: no forward pass is turned around without turns");
    } else {
      launch_blocks<turned_threads_of(kTile)>(
          turned_kernel<kTile.pixels, kTile.channels, kTile.alternates, kDgrad>,
          std::min(args.tiles, multiprocessors), kAlignment + args.stages * stage_bytes(kTile),
          stream, args, maps);
    }
  };
  dgrad ? start.template operator()<true>() : start.template operator()<false>();
}

}  // namespace haloconv::sm90::channels_last
