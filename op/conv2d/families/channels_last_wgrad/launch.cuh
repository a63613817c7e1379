// Starts one of the kernels of a type and a layout of grad_output.
#pragma once

#include <span>
#include <stdexcept>

#include "conv2d/families/channels_last_wgrad/instances.h"
#include "conv2d/families/channels_last_wgrad/kernel.cuh"
#include "conv2d/families/channels_last_wgrad/tiles.h"
#include "cuda/check.h"
#include "cuda/dynamic_shared_memory.cuh"

namespace haloconv::sm90::channels_last_wgrad {

template <class T, class TileConstant, class Args>
void launch_kernel(const PatchMaps& maps, const Args& args, int64_t shared, cudaStream_t stream) {
  constexpr Tile kTile = TileConstant::kTile;
  const auto kernel = channels_last_wgrad_kernel<T, TileConstant, Args>;
  allow_shared_bytes(kernel, kMaxSharedBytes);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(args.cluster_blocks()), 1, 1};
  // Blocks may begin before the kernel before has ended, for which the producer waits.
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.splits() * args.tiles));
  config.blockDim = dim3(static_cast<unsigned>(kTile.threads()));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  check_cuda(cudaLaunchKernelEx(&config, kernel, maps.grad_output, maps.input, args),
             "sm90 channels_last_wgrad");
}

// The kernel of the tile, looked for from `kIndex` on.
template <class T, size_t kIndex = 0, class Args>
void launch_tile(const Tile& tile, const PatchMaps& maps, const Args& args, int64_t shared,
                 cudaStream_t stream) {
  constexpr std::span<const Tile> kOfLayout = tiles_of(Args::kOutputRows);
  if constexpr (kIndex < kOfLayout.size()) {
    constexpr Tile kTile = kOfLayout[kIndex];
    if (tile == kTile) {
      using Constant = TileConstant<kTile.row_warpgroups, kTile.column_warpgroups,
                                    kTile.instructions, kTile.chunks, kTile.width>;
      return launch_kernel<T, Constant>(maps, args, shared, stream);
    }
    return launch_tile<T, kIndex + 1>(tile, maps, args, shared, stream);
  }
  throw std::logic_error("haloconv: no sm90 channels_last_wgrad kernel has this tile");
}

template <class T, class Args>
void launch_instance(const Tile& tile, const PatchMaps& maps, const Args& args, int64_t shared,
                     cudaStream_t stream) {
  launch_tile<T>(tile, maps, args, shared, stream);
}

}  // namespace haloconv::sm90::channels_last_wgrad
