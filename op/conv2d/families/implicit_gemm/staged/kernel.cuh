// fprop and dgrad with windows of the source by elements: staging.h.
//
// All of a block's threads copy, turn, multiply and write. A step is two depths, without branches.
// While a chunk is multiplied the next is staged. When it is turned into the window nothing is
// multiplied, but by other blocks.
#pragma once

#include "conv2d/families/implicit_gemm/element_epilogue.cuh"
#include "conv2d/families/implicit_gemm/staged/mainloop.cuh"
#include "conv2d/families/implicit_gemm/staged/shifted_loader.cuh"
#include "conv2d/families/implicit_gemm/staged/wide_epilogue.cuh"

namespace haloconv::implicit_gemm {

// Blocks that share a multiprocessor: of three, ptxas spills among the products for chips
// before 9.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int kMostStagedBlocks = 2;
#else
inline constexpr int kMostStagedBlocks = 3;
#endif

template <class T, int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].threads(),
                                  blocks_of(kTiles[kIndex]) < kMostStagedBlocks
                                      ? blocks_of(kTiles[kIndex])
                                      : kMostStagedBlocks)
    implicit_gemm_staged_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  extern __shared__ __align__(128) unsigned char shared[];
  const PatchPosition at(args, kTile);
  const Phase& phase = args.phases[at.phase];
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;

  auto& factors = *reinterpret_cast<Factors<kIndex>*>(shared);
  const sm90::Results results = results_of<T>(args, at.group);
  Sums<kIndex> sums = {};
  const int32_t depths = args.windows.depths(phase.h.taps * phase.w.taps);  // of a chunk
  const int32_t chunks = depths > 0 ? args.windows.chunks : 0;
  if (chunks > 0) {
    const uint32_t window = shared_address(shared) + factor_bytes(kTile);
    const uint32_t staging = window + args.windows.bytes;
    ShiftedLoader<T, kTile.threads()> loader(
        args, WindowOrigin(args, at, args.windows.patch_rows(kTile.pixels)));
    const int32_t batches = loader.batches();
    loader.begin(0);
#pragma unroll 1
    for (int32_t i = 0; i < batches; ++i) loader.copy(staging);
    StagedProducts<T, kIndex> products(args, at, window, warp, lane, sums);
    if (args.quick.is_quick) factors.template fill<T>(results, at.channel);
#pragma unroll 1
    for (int32_t chunk = 0; chunk < chunks; ++chunk) {
      if (loader.has_elements()) loader.copy_elements(staging);
      wait_for_copies();
      __syncthreads();  // all threads' copies are there, and nobody reads the window before
      loader.turn(staging, window);
      __syncthreads();
      if (chunk + 1 < chunks) {
        loader.begin(chunk + 1);
#pragma unroll 1
        for (int32_t i = 0; i < batches; ++i) loader.copy(staging);
      }
      products.multiply_window(depths);
    }
  } else if (args.quick.is_quick) {
    factors.template fill<T>(results, at.channel);
  }
  wait_for_copies();
  __syncthreads();  // for the factors, and nobody reads the window any more
  if (!args.quick.is_quick || args.fusion.residual != nullptr) {
    write_elements<T, kIndex>(args, at, warp, lane, shared, sums);
  } else if (args.windows.log_columns == kLogWideColumns && args.has_words) {
    write_wide_lines<T, kIndex>(args, at, results, factors, warp, lane,
                                shared_address(shared) + factor_bytes(kTile), sums);
  } else {
    write_quick_elements<T, kIndex>(args, at, results, factors, warp, lane, sums);
  }
}

}  // namespace haloconv::implicit_gemm
