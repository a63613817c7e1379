// Starts the kernels of alternating tiles: each file of instances has those of one tile.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "conv2d/families/channels_last/alternating_kernel.cuh"
#include "conv2d/families/channels_last/launch_blocks.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
void launch_alternating(const Instance& instance, const Arguments& args, const TensorMaps& maps,
                        bool copies_results, int multiprocessors, cudaStream_t stream) {
  const auto start = [&]<class T, bool kDgrad, Epilogue kEpilogue>() {
    if constexpr (kEpilogue == Epilogue::kNone) {
      launch_blocks<threads_of(kTile), kMostAlternatingSharedBytes>(
          alternating_kernel<T, kTile.pixels, kTile.channels, kTile.depth, kDgrad>,
          std::min(args.tiles, multiprocessors),
          kAlignment + args.stages * stage_bytes(kTile) +
              (copies_results ? staged_bytes(kTile) : 0),
          stream, args, maps, copies_results);
    } else {
      throw std::logic_error("haloconv: nothing is fused with alternating tiles");
    }
  };
  with_instance<kTile>(instance, start);
}

}  // namespace haloconv::sm90::channels_last
