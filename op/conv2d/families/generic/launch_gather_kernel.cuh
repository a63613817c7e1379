// Starts the kernel of fprop and dgrad that a plan names. The plain kernels and those that take a
// fusion are instantiated in files of their own, instances/gather_*.cu and gather_fused_*.cu.
#pragma once

#include "conv2d/families/generic/gather_direct.cuh"
#include "conv2d/families/generic/gather_tile.cuh"
#include "conv2d/families/generic/launch.cuh"
#include "cuda/check.h"

namespace haloconv::generic {

template <class T>
unsigned gather_blocks(const GatherArguments<T>& args) {
  return grid_blocks(int64_t{args.tiles} * args.row_tiles * args.geometry.groups);
}

template <class T, bool kFused>
void launch_gather_direct(const GatherArguments<T>& args, int rows, cudaStream_t stream) {
  const unsigned blocks = gather_blocks<T>(args);
  const auto launch = [&](auto kernel) {
    kernel<<<blocks, kDirectThreads, 0, stream>>>(args);
    check_launch("gather_direct");
  };
  switch (rows) {
    case 1:
      return launch(gather_direct_kernel<T, 1, kFused>);
    case 2:
      return launch(gather_direct_kernel<T, 2, kFused>);
    default:
      return launch(gather_direct_kernel<T, 4, kFused>);
  }
}

template <class T, bool kFused>
void launch_gather_tile(const GatherArguments<T>& args, Kernel kernel, cudaStream_t stream) {
  const unsigned blocks = gather_blocks<T>(args);
  with_tile<T>(kernel, [&]<class Tile>() {
    const auto kernel = args.geometry.channels_last
                            ? gather_tile_kernel<T, Tile, Lanes::kReduction, kFused>
                            : gather_tile_kernel<T, Tile, Lanes::kFixed, kFused>;
    kernel<<<blocks, Tile::kThreads, 0, stream>>>(args);
  });
  check_launch("gather_tile");
}

template <class T, bool kFused>
void launch_gather_kernel(const GatherArguments<T>& args, const Plan& plan, cudaStream_t stream) {
  if (plan.kernel == Kernel::kDirect) {
    launch_gather_direct<T, kFused>(args, plan.direct_rows, stream);
  } else {
    launch_gather_tile<T, kFused>(args, plan.kernel, stream);
  }
}

// launch_gather_kernel<T, true>, defined in launch_fused_gather.cuh.
template <class T>
void launch_fused_gather(const GatherArguments<T>& args, const Plan& plan, cudaStream_t stream);

}  // namespace haloconv::generic
