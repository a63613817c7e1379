#include "conv2d/families/channels_last_tf32_wgrad/kernel.cuh"

#include <iterator>
#include <stdexcept>

#include "conv2d/families/channels_last_tf32_wgrad/instances.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::channels_last_tf32_wgrad {

namespace {

// The kernel of the tile, looked for from `kIndex` on.
template <size_t kIndex = 0>
void launch_from(const Tile& tile, const PatchMaps& maps, const Arguments& args,
                 int64_t shared_bytes, cudaStream_t stream) {
  if constexpr (kIndex < std::size(kTiles)) {
    constexpr Tile kTile = kTiles[kIndex];
    if (!(tile == kTile)) {
      return launch_from<kIndex + 1>(tile, maps, args, shared_bytes, stream);
    }
    using Constant = TileConstant<kTile.warpgroups, kTile.blocks, kTile.instructions>;
    const auto kernel = args.last_groups < args.groups
                            ? channels_last_tf32_wgrad_kernel<Constant, true>
                            : channels_last_tf32_wgrad_kernel<Constant, false>;
    allow_shared_bytes(kernel, kMostSharedBytes);
    kernel<<<static_cast<unsigned>(args.splits * args.tiles),
             static_cast<unsigned>(kTile.threads()), static_cast<size_t>(shared_bytes), stream>>>(
        maps.grad_output, maps.input, args);
    return check_launch("sm90 channels_last_tf32_wgrad");
  }
  throw std::logic_error("haloconv: no channels_last_tf32_wgrad kernel has this tile");
}

}  // namespace

void launch_kernel(const Tile& tile, const PatchMaps& maps, const Arguments& args,
                   int64_t shared_bytes, cudaStream_t stream) {
  launch_from(tile, maps, args, shared_bytes, stream);
}

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
