// Starts the kernels: each file of instances has that of one tile.
#pragma once

#include <algorithm>

#include "conv2d/families/unpacked/instances.h"
#include "conv2d/families/unpacked/kernel.cuh"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::unpacked {

template <Tile kTile>
void launch_tile(const Arguments& args, const CUtensorMap& source, const CUtensorMap& filter,
                 uint32_t box_bytes, int multiprocessors, cudaStream_t stream) {
  const auto kernel = unpacked_kernel<kTile.pixels, kTile.channels>;
  allow_shared_bytes(kernel, kMostShared + kAlignment);
  const int32_t blocks = std::min(args.tiles * args.splits, multiprocessors * blocks_of(kTile));
  launch_dependent(kernel, static_cast<unsigned>(blocks), threads_of(kTile),
                   shared_bytes(args, kTile), stream, "unpacked", args, source, filter, box_bytes);
}

}  // namespace haloconv::unpacked
