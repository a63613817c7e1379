// wgrad as tiles of a matrix product: A = output gradient (rows, pixels), B = gathered input
// (pixels, columns); the pixels are split over blocks. The bias gradient is a column of ones.
#pragma once

#include "conv2d/families/generic/arguments.cuh"
#include "conv2d/families/generic/loaders.cuh"

namespace haloconv::generic {

// Longer sums are kept in parts, whose sums are added, so that float32 error grows with the parts'
// length, not with the number of pixels.
inline constexpr int kPartialPixels = 256;

// A block's place: rows and columns of which group, and which split.
struct WgradTile {
  int32_t row, column, group;
  int64_t split;

  template <class Arguments>
  __device__ __forceinline__ WgradTile(const Arguments& args, int rows, int columns) {
    uint32_t block = blockIdx.x;
    column = static_cast<int32_t>(block % args.column_tiles) * columns;
    block /= args.column_tiles;
    row = static_cast<int32_t>(block % args.row_tiles) * rows;
    block /= args.row_tiles;
    group = static_cast<int32_t>(block % args.geometry.groups);
    split = block / static_cast<uint32_t>(args.geometry.groups);
  }

  // Where this block's partial sums for (row 0, column 0) are.
  __device__ __forceinline__ int64_t partial_offset(const Wgrad& g) const {
    return (split * g.groups + group) * g.rows * g.columns;
  }
};

// The block adds to partial sums that only it writes. `first` overwrites what was there.
template <class Tile>
__device__ __forceinline__ void add_partial(const Wgrad& g, const WgradTile& at, Tile& tile,
                                            typename Tile::Acc* partial, bool first) {
  int32_t first_row = at.row, first_column = at.column;
  hide(first_row);
  hide(first_column);
#pragma unroll
  for (int i = 0; i < Tile::kTM; ++i) {
    const int32_t row = first_row + tile.row(i);
#pragma unroll
    for (int j = 0; j < Tile::kTN; ++j) {
      const int32_t column = first_column + tile.column(j);
      if (row < g.rows && column < g.columns) {
        auto* sum = partial + (int64_t{row} * g.columns + column);
        *sum = first ? tile.acc[i][j] : *sum + tile.acc[i][j];
      }
    }
  }
  tile.clear();
}

template <class T, class Tile, Lanes kLanes>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    wgrad_tile_kernel(const __grid_constant__ WgradArguments<T> args) {
  const Wgrad& g = args.geometry;
  const WgradTile at(args, Tile::kM, Tile::kN);
  const int64_t first_pixel = at.split * args.split_pixels;
  const int32_t pixels = static_cast<int32_t>(min(args.split_pixels, g.pixels - first_pixel));
  const PixelRange range(first_pixel, g.plane, g.q);

  const auto input_pixel = [&](int32_t step, int k) {
    const int32_t local = step * Tile::kK + k;
    return local < pixels ? wgrad_input_pixel(g, range[local]) : outside();
  };
  const auto grad_pixel = [&](int32_t step, int k) {
    const int32_t local = step * Tile::kK + k;
    return local < pixels ? wgrad_output_pixel(g, range[local]) : outside();
  };
  using LoadInput = GatherLoader<T, Tile::kThreads, Tile::kN, Tile::kK, Tile::kPitchB, kLanes,
                                 /*kHasOne=*/true, decltype(input_pixel)>;
  using LoadGrad = GatherLoader<T, Tile::kThreads, Tile::kM, Tile::kK, Tile::kPitchA, kLanes,
                                /*kHasOne=*/false, decltype(grad_pixel)>;

  __shared__ typename Tile::Shared operands;
  __shared__ typename LoadInput::Shared input_sites;
  __shared__ typename LoadGrad::Shared grad_sites;

  LoadInput input(
      input_sites, args.input + int64_t{at.group} * g.channels * g.input.c, g.h, g.w,
      [&](int i) { return wgrad_column(g, at.column + i); }, input_pixel);
  LoadGrad grad(
      grad_sites, args.grad_output + int64_t{at.group} * g.rows * g.output.c, 1, 1,
      [&](int i) { return wgrad_row(g, at.row + i); }, grad_pixel);

  Tile tile;
  auto* partial = args.partial + at.partial_offset(g);
  constexpr int kSteps = kPartialPixels / Tile::kK;
  const int32_t steps = (pixels + Tile::kK - 1) / Tile::kK;
  run_mainloop(tile, operands, grad, input, steps, [&](int32_t step) {
    if ((step + 1) % kSteps == 0 || step + 1 == steps) {
      add_partial(g, at, tile, partial, step < kSteps);
    }
  });
}

}  // namespace haloconv::generic
