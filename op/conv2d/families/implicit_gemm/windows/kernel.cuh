// fprop and dgrad with windows of the source by units: windows.h.
//
// All of a block's threads copy, multiply and write. A step is two depths, a stage of the filter.
// While it is multiplied the copies of the stages after it are on the way, and those of the next
// chunk's window a few at a time. A step has no branches, so that the compiler puts all else
// between the products.
#pragma once

#include "conv2d/families/implicit_gemm/windows/epilogue.cuh"
#include "conv2d/families/implicit_gemm/windows/mainloop.cuh"

namespace haloconv::implicit_gemm {

template <class T, int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].threads(), blocks_of(kTiles[kIndex]))
    implicit_gemm_windows_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  extern __shared__ __align__(128) unsigned char shared[];
  const PatchPosition at(args, kTile);
  const Phase& phase = args.phases[at.phase];
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;

  auto& factors = *reinterpret_cast<Factors<kIndex>*>(shared);
  const sm90::Results results = results_of<T>(args, at.group);
  Sums<kIndex> sums = {};
  const int32_t chunk_depths = args.windows.depths(phase.h.taps * phase.w.taps);
  const int32_t depths = args.windows.chunks * chunk_depths;
  if (depths > 0) {
    const uint32_t windows = shared_address(shared) + factor_bytes(kTile);
    const uint32_t windows_sum = 2 * windows + (args.windows.count - 1) * args.windows.bytes;
    WindowLoader<T, kIndex> loader(args, at);
    FilterStages<T, kIndex> filter(args, at, windows + args.windows.count * args.windows.bytes);
    loader.begin(0);
    const int32_t all_items = loader.items();
#pragma unroll 4
    for (int32_t i = 0; i < all_items; ++i) loader.copy(windows);
    filter.begin();
    if (args.quick.is_quick) factors.template fill<T>(results, at.channel);
    WindowProducts<T, kIndex> products(args, phase, windows, warp, lane, sums);
    wait_for_groups<kFilterStages - 2>();
    __syncthreads();
    products.load(filter.current());

    // Of the next chunk's window a thread brings so many items in a step, until all are there.
    const int32_t steps = max(fill_steps(chunk_depths), 1);
    const int32_t items = (all_items + steps - 1) / steps;
    int32_t filled_chunk = 0, next_fill = 0, items_left = 0;
    uint32_t filled = windows;
    const auto multiply_step = [&](auto fills) {
      products.template multiply<0>(filter.current(), [&](int block) {
        if (block == 0) filter.fetch();
        if (block == 1) {
          if constexpr (decltype(fills)::value) loader.copy(filled);
          commit_copies();
        }
      });
      wait_for_groups<kFilterStages - 2>();
      __syncthreads();  // all threads' copies are there, and nobody reads the stage before
      filter.advance();
      products.template multiply<1>(filter.current(), [](int) {});
    };
#pragma unroll 1
    for (int32_t step = 0; step < depths / 2; ++step) {
      if (step == next_fill && filled_chunk + 1 < args.windows.chunks) {
        ++filled_chunk;
        loader.begin(filled_chunk);
        items_left = all_items;
        filled = windows_sum - filled;
        next_fill = (filled_chunk * chunk_depths + 1) / 2;
      }
      if (items_left > 0) {
#pragma unroll 1
        for (int32_t i = 1; i < items; ++i) loader.copy(filled);
        items_left -= items;
        multiply_step(std::true_type());
      } else {
        multiply_step(std::false_type());
      }
    }
    if (depths % 2 != 0) products.multiply_last();
  } else {
    if (args.quick.is_quick) factors.template fill<T>(results, at.channel);
    __syncthreads();  // for the factors
  }
  wait_for_copies();
  write_patch<T, kIndex>(args, at, results, factors, warp, lane, sums);
}

}  // namespace haloconv::implicit_gemm
