// Launches wgrad: partial sums, then their sum in a fixed order.
#pragma once

#include "conv2d/device/reduce_splits.cuh"
#include "conv2d/families/generic/launch.cuh"
#include "conv2d/families/generic/launch.h"
#include "conv2d/families/generic/wgrad_direct.cuh"
#include "conv2d/families/generic/wgrad_tile.cuh"
#include "cuda/check.h"

namespace haloconv::generic {

template <class T>
void launch_wgrad(const Plan& plan, const Lowered& lowered, const T* grad_output, const T* input,
                  T* grad_filter, T* grad_bias, void* workspace, cudaStream_t stream) {
  WgradArguments<T> args{};
  args.input = input;
  args.grad_output = grad_output;
  args.partial = static_cast<AccumulatorOf<T>*>(workspace);
  args.split_pixels = plan.split_pixels;
  args.geometry = lowered.wgrad;
  const Wgrad& g = args.geometry;

  const auto blocks = [&](int rows, int columns) {
    args.row_tiles = static_cast<uint32_t>(ceil_div(g.rows, rows));
    args.column_tiles = static_cast<uint32_t>(ceil_div(g.columns, columns));
    return grid_blocks(plan.splits * g.groups * int64_t{args.row_tiles} * args.column_tiles);
  };
  if (plan.kernel == Kernel::kDirect) {
    const unsigned grid = blocks(1, kDirectColumns);
    wgrad_direct_kernel<T><<<grid, kDirectThreads, 0, stream>>>(args);
  } else {
    with_tile<T>(plan.kernel, [&]<class Tile>() {
      const unsigned grid = blocks(Tile::kM, Tile::kN);
      if (g.channels_last) {
        wgrad_tile_kernel<T, Tile, Lanes::kFixed><<<grid, Tile::kThreads, 0, stream>>>(args);
      } else {
        wgrad_tile_kernel<T, Tile, Lanes::kReduction><<<grid, Tile::kThreads, 0, stream>>>(args);
      }
    });
  }
  check_launch("wgrad");

  launch_reduce_splits<T>(args, plan.splits, grad_filter, grad_bias, stream);
}

}  // namespace haloconv::generic
