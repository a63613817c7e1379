// fprop and dgrad with windows of the source: windows.h.
//
// All of a block's threads copy, multiply and write. A step is two depths, a stage of the filter.
// While it is multiplied the copies of the stages after it are on the way, and those of the next
// chunk's window a few at a time. A step has no branches, so that the compiler puts all else
// between the products.
#pragma once

#include "conv2d/families/implicit_gemm/element_epilogue.cuh"
#include "conv2d/families/implicit_gemm/window_epilogue.cuh"
#include "conv2d/families/implicit_gemm/window_mainloop.cuh"

namespace haloconv::implicit_gemm {

// The whole of the first window, by all threads.
template <class T, int kIndex, Access kAccess>
__device__ __forceinline__ void fill_window(WindowLoader<T, kIndex, kAccess>& loader,
                                            uint32_t window) {
  using Loader = WindowLoader<T, kIndex, kAccess>;
  loader.begin(0);
  const int32_t items = loader.items();
  if constexpr (kAccess == Access::kUnits) {
#pragma unroll 4
    for (int32_t i = 0; i < items; ++i) loader.copy(window);
  } else {
    constexpr int kAtOnce = sizeof(T) == 4 ? 12 : 8;
#pragma unroll 1
    for (int32_t i = 0; i < items; i += kAtOnce) {
      typename Loader::Part parts[kAtOnce];
#pragma unroll
      for (auto& part : parts) loader.load(part);
#pragma unroll
      for (const auto& part : parts) loader.store(part, window);
    }
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

  auto& factors = *reinterpret_cast<Factors<kIndex>*>(shared);
  const sm90::Results results = results_of<T>(args, at.group);
  if (args.quick.is_quick) factors.template fill<T>(results, at.channel);

  Sums<kIndex> sums = {};
  const int32_t chunk_depths = args.windows.depths(phase.h.taps * phase.w.taps);
  const int32_t depths = args.windows.chunks * chunk_depths;
  if (depths > 0) {
    constexpr int kPixelBlocks = Sums<kIndex>::kPixelBlocks;
    constexpr int kLoads = FilterReader<kIndex>::kLoads;
    const uint32_t windows = shared_address(shared) + factor_bytes(kTile);
    const uint32_t windows_sum = 2 * windows + (args.windows.count - 1) * args.windows.bytes;
    const uint32_t first_stage = windows + args.windows.count * args.windows.bytes;
    const uint32_t end = first_stage + kFilterStages * kStageBytes;
    const auto next_stage = [&](uint32_t stage) {
      return stage + kStageBytes == end ? first_stage : stage + kStageBytes;
    };
    Loader loader(args, at);
    WindowFilterLoader<T, kIndex> filter(args, at);
    fill_window(loader, windows);
    uint32_t to = first_stage, from = first_stage;
    for (int i = 0; i < kFilterStages - 1; ++i) {
      filter.fetch_next(to);
      commit_copies();
      to = next_stage(to);
    }
    WindowReader<kIndex> reader(args, phase, windows, warp, lane);
    const FilterReader<kIndex> filter_reader(warp, lane);
    wait_for_groups<kFilterStages - 2>();
    __syncthreads();
    uint32_t pixels[kPixelBlocks][4];
    FilterOperands<kIndex> channels[2];
#pragma unroll
    for (int i = 0; i < kPixelBlocks; ++i) reader.load(i, pixels[i]);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) filter_reader.load(from, 0, j, channels[0][j]);

    // Of the next chunk's window a thread brings so many items in a step, until all are there.
    const int32_t steps = max(fill_steps(chunk_depths), 1);
    const int32_t items = (loader.items() + steps - 1) / steps;
    int32_t filled_chunk = 0, next_fill = 0, items_left = 0;
    uint32_t filled = windows;
    // Multiplies a depth, while the operands of the next come from `stage`. Between blocks of
    // pixels it does something else.
    const auto multiply = [&]<int kDepth>(std::integral_constant<int, kDepth>, uint32_t stage,
                                          auto between) {
      constexpr int kNext = 1 - kDepth;
      reader.advance();
#pragma unroll
      for (int i = 0; i < kPixelBlocks; ++i) {
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2 && j < kLoads; ++j) {
          filter_reader.load(stage, kNext, j, channels[kNext][j]);
        }
        multiply_block<T, kIndex, kByUnits>(pixels[i], channels[kDepth], sums.of[i]);
        reader.load(i, pixels[i]);
        between(i);
      }
    };
    constexpr std::integral_constant<int, 0> kFirst;
    constexpr std::integral_constant<int, 1> kSecond;
    const auto multiply_step = [&](auto fills) {
      constexpr bool kFills = decltype(fills)::value;
      typename Loader::Part part;
      multiply(kFirst, from, [&](int block) {
        if (block == 0) filter.fetch_next(to);
        if (block == 1) {
          if constexpr (kFills && kByUnits) loader.copy(filled);
          if constexpr (kFills && !kByUnits) loader.load(part);
          commit_copies();
        }
      });
      wait_for_groups<kFilterStages - 2>();
      __syncthreads();  // all threads' copies are there, and nobody reads the stage before
      from = next_stage(from);
      to = next_stage(to);
      if constexpr (kFills && !kByUnits) {
        if (items > 1) {
          loader.store(part, filled);
          loader.load(part);
        }
      }
      multiply(kSecond, from, [](int) {});
      if constexpr (kFills && !kByUnits) loader.store(part, filled);
    };
#pragma unroll 1
    for (int32_t step = 0; step < depths / 2; ++step) {
      if (step == next_fill && filled_chunk + 1 < args.windows.chunks) {
        ++filled_chunk;
        loader.begin(filled_chunk);
        items_left = loader.items();
        filled = windows_sum - filled;
        next_fill = (filled_chunk * chunk_depths + 1) / 2;
      }
      if (items_left > 0) {
#pragma unroll 1
        for (int32_t i = kByUnits ? 1 : 2; i < items; ++i) {
          if constexpr (kByUnits) {
            loader.copy(filled);
          } else {
            typename Loader::Part part;
            loader.load(part);
            loader.store(part, filled);
          }
        }
        items_left -= items;
        multiply_step(std::true_type());
      } else {
        multiply_step(std::false_type());
      }
    }
    if (depths % 2 != 0) {
#pragma unroll
      for (int i = 0; i < kPixelBlocks; ++i) {
        multiply_block<T, kIndex, kByUnits>(pixels[i], channels[0], sums.of[i]);
      }
    }
  } else {
    __syncthreads();  // for the factors
  }
  wait_for_copies();
  if constexpr (kByUnits) {
    write_patch<T, kIndex>(args, at, results, factors, warp, lane, sums);
  } else if (args.quick.is_quick && args.fusion.residual == nullptr) {
    write_quick_elements<T, kIndex>(args, at, results, factors, warp, lane, sums);
  } else {
    __syncthreads();  // nobody reads a stage or a window any more
    write_elements<T, kIndex>(args, at, warp, lane, shared, sums);
  }
}

}  // namespace haloconv::implicit_gemm
