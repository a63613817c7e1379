// Weight and bias gradients by windows of the input: arguments.h.
//
// All of a block's threads copy, turn and multiply. Between the products of a patch they bring the
// next one's input to the staging area (implicit_gemm/staging.h), and its grad_output.
#pragma once

#include "conv2d/families/implicit_gemm/staging_loader.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/grad_output_loader.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/partial.cuh"

namespace haloconv::windows_wgrad {

// The matrix instruction's sums truncate: after so many pixels they move to the workspace, where
// they are added as float32 is.
inline constexpr int kRoundPixels = 16384;

template <class T, int kIndex>
__global__ void __launch_bounds__(kThreads, 1)
    windows_wgrad_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  extern __shared__ __align__(128) unsigned char shared[];
  const implicit_gemm::Arguments& forward = args.forward;
  const int32_t chunk_channels =
      forward.windows.units() * (implicit_gemm::kUnitBytes / static_cast<int32_t>(sizeof(T)));
  const BlockPosition at(args, kTile, chunk_channels);
  const WarpPosition warp(at, kTile, chunk_channels);
  const bool sums_bias =
      args.geometry.has_bias_column && at.tap == 0 && at.chunk == 0 && warp.first_column == 0;

  const uint32_t window = shared_address(shared);
  const uint32_t staging = window + forward.windows.bytes;
  const uint32_t grad_output = staging + forward.staging.bytes;
  const uint32_t grad_output_bytes =
      kTile.rows * grad_output_line(args.patch_rows * implicit_gemm::kPatchColumns, sizeof(T));
  Sums<T, kTile> sums = {};
  using Products = Products<T, kTile>;
  Products products(args, warp, window, sums);

  const auto patch_of = [&](int32_t number) {
    return implicit_gemm::PatchPosition(forward, args.patch_rows, 0, at.group,
                                        at.first_patch + number);
  };
  const auto fetch_window = [&](const implicit_gemm::PatchPosition& patch) {
    implicit_gemm::StagingLoader<T, kThreads> input(
        forward, implicit_gemm::WindowOrigin(forward, patch, args.patch_rows));
    input.begin(at.chunk);
#pragma unroll 1
    for (int32_t i = input.batches(); i > 0; --i) input.copy(staging);
  };
  const auto grad_output_of = [&](int32_t number, const implicit_gemm::PatchPosition& patch) {
    return GradOutputLoader<T, kTile.rows>(args, at, patch,
                                           grad_output + number % 2 * grad_output_bytes);
  };
  const int32_t pairs = args.patch_rows * Products::kRowDepths / 2;  // of depths
  // Warps that share a scheduler bring their parts of the window at different times.
  const int32_t window_pair = warp.number / 4;
  const int32_t round_patches = kRoundPixels / implicit_gemm::kPatchColumns / args.patch_rows;
  int32_t summed = 0;
  bool is_first = true;
  {
    const implicit_gemm::PatchPosition first = patch_of(0);
    fetch_window(first);
    auto loader = grad_output_of(0, first);
#pragma unroll 1
    for (int32_t i = 0; i < pairs; ++i) loader.copy();
  }
#pragma unroll 1
  for (int32_t number = 0; number < at.patches; ++number) {
    wait_for_copies();
    __syncthreads();  // all threads' copies are there, and nobody reads the patch before
    implicit_gemm::turn_window<T, kThreads>(forward, staging, window);
    __syncthreads();
    const implicit_gemm::PatchPosition patch = patch_of(number);
    const Phase& phase = forward.phases[0];
    const int32_t depths = min(args.patch_rows, phase.h.pixels - patch.row) * Products::kRowDepths;
    products.set_columns(phase.w.pixels - patch.column, warp.lane);
    products.load(grad_output + number % 2 * grad_output_bytes);
    const bool is_last = number + 1 == at.patches;
    auto loader = grad_output_of(number + 1, patch_of(number + 1));
#pragma unroll 1
    for (int32_t pair = 0; pair < pairs; ++pair) {
      if (!is_last) {
        if (pair == window_pair) fetch_window(patch_of(number + 1));
        loader.copy();
      }
      if (pair * 2 >= depths) continue;
      if (sums_bias) {
        products.template multiply<0, true>();
        if (pair * 2 + 1 < depths) products.template multiply<1, true>();
      } else {
        products.template multiply<0, false>();
        if (pair * 2 + 1 < depths) products.template multiply<1, false>();
      }
    }
    if (++summed == round_patches || is_last) {
      add_to_partial(args, at, warp, is_first, sums_bias, sums);
      summed = 0;
      is_first = false;
    }
  }
}

}  // namespace haloconv::windows_wgrad
