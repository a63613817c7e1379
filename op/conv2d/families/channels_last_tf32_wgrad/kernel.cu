#include "conv2d/families/channels_last_tf32_wgrad/kernel.cuh"

#include <iterator>
#include <stdexcept>

#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

template <Tile kTile, Walk kWalk>
void launch_walk(const PatchMaps& maps, const Arguments& args, int64_t shared_bytes,
                 cudaStream_t stream) {
  using Constant = TileConstant<kTile.warpgroups, kTile.blocks, kTile.instructions>;
  const auto kernel = channels_last_tf32_wgrad_kernel<Constant, kWalk>;
  allow_shared_bytes(kernel, kMostSharedBytes);
  launch_dependent(kernel, static_cast<unsigned>(args.splits * args.tiles), kTile.threads(),
                   shared_bytes, stream, "sm90 channels_last_tf32_wgrad", maps.grad_output,
                   maps.input, args);
}

// The kernel of the tile, looked for from `kIndex` on.
template <size_t kIndex = 0>
void launch_from(const Tile& tile, const PatchMaps& maps, const Arguments& args,
                 int64_t shared_bytes, cudaStream_t stream) {
  if constexpr (kIndex < std::size(kTiles)) {
    constexpr Tile kTile = kTiles[kIndex];
    if (!(tile == kTile)) {
      return launch_from<kIndex + 1>(tile, maps, args, shared_bytes, stream);
    }
    const auto launch_with = [&]<Walk kWalk>() {
      launch_walk<kTile, kWalk>(maps, args, shared_bytes, stream);
    };
    if constexpr (kTile.blocks == 3) {
      if (args.walk == Walk::kRows) return launch_with.template operator()<Walk::kRows>();
      if (args.walk == Walk::kSquares) return launch_with.template operator()<Walk::kSquares>();
    }
    return launch_with.template operator()<Walk::kGroups>();
  }
  throw std::logic_error("haloconv: no channels_last_tf32_wgrad kernel has this tile");
}

}  // namespace

void launch_kernel(const Tile& tile, const PatchMaps& maps, const Arguments& args,
                   int64_t shared_bytes, cudaStream_t stream) {
  launch_from(tile, maps, args, shared_bytes, stream);
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
