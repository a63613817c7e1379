// fprop and dgrad with windows of the source: windows.h.
//
// All of a block's threads copy, multiply and write. While a depth is multiplied, the operands of
// the next are loaded; while a step is, the copies of stages after it are on the way, and those of
// the next chunk's window a few at a time.
#pragma once

#include "conv2d/families/implicit_gemm/element_epilogue.cuh"
#include "conv2d/families/implicit_gemm/window_loader.cuh"
#include "conv2d/families/implicit_gemm/window_mainloop.cuh"

namespace haloconv::implicit_gemm {

// The whole of the first window, by all threads.
template <class Loader>
__device__ __forceinline__ void fill_window(const Loader& loader, bool by_units, uint32_t window) {
  if (by_units) {
    for (int32_t i = loader.first_item(); i < loader.items(); i += Loader::kItemStep) {
      loader.copy(loader.item(i, 0), window);
    }
    return;
  }
  constexpr int kAtOnce = 4;
  for (int32_t i = loader.first_item(); i < loader.items(); i += kAtOnce * Loader::kItemStep) {
    typename Loader::Part parts[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      loader.load(loader.item(i + k * Loader::kItemStep, 0), parts[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) loader.store(parts[k], window);
  }
}

// By elements a thread has more addresses: a third block would leave too few registers for them.
template <int kIndex, Access kAccess>
inline constexpr int kWindowBlocks =
    kAccess == Access::kUnits || blocks_of(kTiles[kIndex]) < 3 ? blocks_of(kTiles[kIndex]) : 2;

template <class T, int kIndex, Access kAccess>
__global__ void __launch_bounds__(kTiles[kIndex].threads(), kWindowBlocks<kIndex, kAccess>)
    implicit_gemm_windows_kernel(const __grid_constant__ Arguments args) {
  constexpr Tile kTile = kTiles[kIndex];
  constexpr bool kByUnits = kAccess == Access::kUnits;
  constexpr uint32_t kStageBytes = filter_stage_bytes(kTile);
  using Loader = WindowLoader<T, kIndex, kAccess>;
  extern __shared__ __align__(128) unsigned char shared[];
  const PatchPosition at(args, kTile);
  const Phase& phase = args.phases[at.phase];
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;

  Sums<kIndex> sums = {};
  const int32_t taps = phase.h.taps * phase.w.taps;
  const int32_t chunk_steps = args.windows.chunk_steps(taps);
  if (chunk_steps > 0) {
    uint32_t window = shared_address(shared);
    // Of two windows, from the one to the other.
    const uint32_t windows_sum = 2 * window + (args.windows.count - 1) * args.windows.bytes;
    const uint32_t first_stage = window + args.windows.count * args.windows.bytes;
    const uint32_t end = first_stage + kFilterStages * kStageBytes;
    const auto next_stage = [&](uint32_t stage) {
      return stage + kStageBytes == end ? first_stage : stage + kStageBytes;
    };
    const Loader loader(args, at);
    WindowFilterLoader<T, kIndex> filter(args, at);
    WindowReader<kIndex> pixels(args, phase, warp, lane);
    const FilterReader<kIndex> channels(warp, lane);
    // Items of the next window in each step but a chunk's last.
    const int32_t spread = (loader.items() + Loader::kItemStep * (chunk_steps - 1) - 1) /
                           max(Loader::kItemStep * (chunk_steps - 1), 1);
    // Two units a pixel and odd taps leave half of a chunk's last step empty.
    const bool has_half = (taps * args.windows.units() & 2) != 0;

    fill_window(loader, kByUnits, window);
    uint32_t to = first_stage, from = first_stage;
    for (int i = 0; i < kFilterStages - 1; ++i) {
      filter.fetch_next(to);
      commit_copies();
      to = next_stage(to);
    }
    wait_for_groups<kFilterStages - 2>();
    __syncthreads();
    Operands<kIndex> operands[2];
    pixels.load(window, operands[0]);
    channels.load(from, 0, operands[0]);

    int32_t chunk = 0, left = chunk_steps;  // steps of the chunk
    int32_t number = loader.first_item();   // of the next window's items
#pragma unroll 1
    while (true) {
      const bool is_last = left == 1;
      const bool fills = !is_last && chunk + 1 < args.windows.chunks;
      const bool is_whole = !(is_last && has_half);
      const uint32_t other = windows_sum - window;
      if (is_whole) pixels.advance();
      pixels.load(window, operands[1]);
      channels.load(from, 1, operands[1]);
      filter.fetch_next(to);
      typename Loader::Part part;
      if (kByUnits) {
        if (fills) {
#pragma unroll 1
          for (int32_t i = 0; i < spread; ++i, number += Loader::kItemStep) {
            loader.copy(loader.item(number, chunk + 1), other);
          }
        }
      } else if (fills) {
#pragma unroll 1
        for (int32_t i = 2; i < spread; ++i, number += Loader::kItemStep) {
          loader.load(loader.item(number, chunk + 1), part);
          loader.store(part, other);
        }
        loader.load(loader.item(number, chunk + 1), part);
        number += Loader::kItemStep;
      }
      commit_copies();
      multiply<T, kIndex, kByUnits>(operands[0], sums);
      if (!kByUnits && fills) loader.store(part, other);

      if (is_last) {
        wait_for_groups<0>();
      } else {
        wait_for_groups<kFilterStages - 2>();
      }
      __syncthreads();  // all threads' copies are there, and nobody reads the stage before
      from = next_stage(from);
      to = next_stage(to);
      if (is_last) {
        if (++chunk == args.windows.chunks) break;
        left = chunk_steps;
        number = loader.first_item();
        window = other;
        pixels.restart();
      } else {
        --left;
        pixels.advance();
      }
      pixels.load(window, operands[0]);
      channels.load(from, 0, operands[0]);
      const bool fills_more = !kByUnits && fills && spread > 1;
      if (fills_more) {
        loader.load(loader.item(number, chunk + 1), part);
        number += Loader::kItemStep;
      }
      if (is_whole) multiply<T, kIndex, kByUnits>(operands[1], sums);
      if (fills_more) loader.store(part, other);
    }
    if (!has_half) multiply<T, kIndex, kByUnits>(operands[1], sums);
  }
  if constexpr (kByUnits) {
    write_tile<T, kIndex>(args, at, warp, lane, shared, sums);
  } else {
    write_elements<T, kIndex>(args, at, warp, lane, shared, sums);
  }
}

}  // namespace haloconv::implicit_gemm
