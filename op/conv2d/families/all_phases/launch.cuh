#pragma once

#include <stdexcept>

#include "conv2d/families/all_phases/instances.h"
#include "conv2d/families/all_phases/kernel.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::all_phases {

template <class T>
void launch_instance(const Tile& tile, const Arguments& args, int multiprocessors,
                     cudaStream_t stream) {
  const auto launch = [&]<int kIndex>() {
    constexpr Tile kTile = kTiles[kIndex];
    if (tile.blocks != kTile.blocks || tile.columns != kTile.columns) return false;
    constexpr int kMostShared = 227 * 1024;
    const auto kernel = &all_phases_kernel<T, kTile.blocks, kTile.columns>;
    allow_shared_bytes(kernel, kMostShared);
    const int blocks = blocks_of(args, tile, multiprocessors * kBlocksAtOnce<kTile.blocks>);
    // Blocks may begin while the filter is still being packed.
    launch_dependent(kernel, static_cast<unsigned>(blocks), kThreads, shared_bytes(args, tile),
                     stream, "all_phases", args);
    return true;
  };
  static_assert(std::size(kTiles) == 4);
  if (launch.template operator()<0>() || launch.template operator()<1>() ||
      launch.template operator()<2>() || launch.template operator()<3>()) {
    return;
  }
  throw std::logic_error("haloconv: no all_phases kernel has this tile");
}

}  // namespace haloconv::all_phases
