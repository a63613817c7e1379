#pragma once

#include <algorithm>
#include <stdexcept>

#include "conv2d/families/phase_pairs/instances.h"
#include "conv2d/families/phase_pairs/kernel.cuh"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::phase_pairs {

template <int kPattern>
void launch_instance(const Tile& tile, const Arguments& args, const CUtensorMap& source,
                     int multiprocessors, cudaStream_t stream) {
  const auto launch = [&](auto kernel, int blocks_of_multiprocessor) {
    const auto bytes = static_cast<int>(shared_bytes(args));
    constexpr int kMostShared = 227 * 1024;
    allow_shared_bytes(kernel, kMostShared);
    const int blocks = std::min(args.tiles, multiprocessors * blocks_of_multiprocessor);
    kernel<<<blocks, kThreads, bytes, stream>>>(args, source);
    check_launch("phase_pairs");
  };
  if (tile.blocks == 2 && tile.channels == 64)
    return launch(&phase_pairs_kernel<kPattern, 2, 64>, 1);
  if (tile.blocks == 1 && tile.channels == 64)
    return launch(&phase_pairs_kernel<kPattern, 1, 64>, 2);
  if (tile.blocks == 2 && tile.channels == 32)
    return launch(&phase_pairs_kernel<kPattern, 2, 32>, 1);
  throw std::logic_error("haloconv: no phase_pairs kernel has this tile");
}

}  // namespace haloconv::phase_pairs
