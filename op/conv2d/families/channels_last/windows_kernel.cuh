// The kernel of windows.h. A block stays on its multiprocessor and computes tiles; its last warp
// brings windows and filter tiles, each into a ring of its own, and the others multiply and write.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last/laid_filter.cuh"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "conv2d/families/channels_last/result_boxes.cuh"
#include "conv2d/families/channels_last/windows.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last {

struct WindowBarriers {
  uint64_t window_full[kMaxWindowStages], window_empty[kMaxWindowStages];
  uint64_t filter_full[kMaxFilterStages], filter_empty[kMaxFilterStages];
};

// Shared memory: the filter's stages, then the windows'.
template <Tile kTile>
struct WindowMemory {
  static constexpr uint32_t kFilterBytes = kTile.channels * kTile.row_bytes();
  WindowBarriers& barriers;
  uint32_t filters, windows;
  int32_t window_bytes;

  __device__ __forceinline__ WindowMemory(unsigned char* base, WindowBarriers& all,
                                          const WindowArguments& args)
      : barriers(all),
        filters((shared_address_of(base) + 1023) / 1024 * 1024),
        windows(filters + args.filter_stages * kFilterBytes),
        window_bytes(args.boxes * args.box_pitch) {}
};

// A tile: so many blocks from `block` on, for channels from `channel` on.
struct WindowTile {
  int32_t block, channel;

  template <Tile kTile>
  static __device__ __forceinline__ WindowTile at(const WindowArguments& args, int32_t tile) {
    const int32_t of_blocks = args.channel_tiles.quotient(tile);
    return {of_blocks * (kTile.pixels / kBlockPixels),
            (tile - of_blocks * args.channel_tiles.divisor) * kTile.channels};
  }
};

// A pixel of a block by its number there.
__device__ __forceinline__ Place place_in_block(const WindowArguments& args, int32_t number,
                                                const BlockPlace& block, int32_t pixel) {
  const int32_t y = args.block_pitch.quotient(pixel);
  const int32_t x = pixel - y * args.block_pitch.divisor;
  const int32_t h = block.row + y, w = block.column + x;
  return {number < args.blocks && y < args.block_rows && x < args.block_columns &&
              h < args.height && w < args.width,
          block.image * args.destination_n + h * args.destination_h + w * args.destination_w};
}

// Of a thread's pixels of a tile.
template <Tile kTile>
__device__ __forceinline__ Places<kRowBlocks<kTile>> places_of(const WindowArguments& args,
                                                               const WindowTile& at, int32_t warp,
                                                               int32_t lane) {
  Places<kRowBlocks<kTile>> places;
#pragma unroll
  for (int row = 0; row < kRowBlocks<kTile>; ++row) {
    const int32_t in_tile = warp / 4 * kRowBlocks<kTile> + row, number = at.block + in_tile;
    const BlockPlace block = args.place_of(at.block, in_tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Place place = place_in_block(args, number, block, pixel_in_block(warp % 4, lane, half));
      places.inside[row * 2 + half] = place.inside;
      places.at[row * 2 + half] = place.at;
    }
  }
  return places;
}

// A tile's residual comes to the L2 cache while the tile before it is computed.
template <class T, Tile kTile>
__device__ __forceinline__ void prefetch_residual_of(const WindowArguments& args, int32_t tile) {
  if (args.results.fusion.residual == nullptr || tile >= args.tiles) return;
  const WindowTile at = WindowTile::at<kTile>(args, tile);
  prefetch_residual<T, kTile.pixels, kTile.channels, kMathGroups * 128>(
      args.results, at.channel, [&](int32_t pixel) {
        const int32_t in_tile = pixel / kBlockPixels;
        return place_in_block(args, at.block + in_tile, args.place_of(at.block, in_tile),
                              pixel % kBlockPixels);
      });
}

// A tile's residual after its windows: 64 channels a stage, the blocks' boxes where their windows
// would begin.
template <Tile kTile>
__device__ __forceinline__ void bring_residual(const WindowArguments& args, const WindowMaps& maps,
                                               const WindowMemory<kTile>& shared,
                                               const WindowTile& at, RingPosition& window) {
  const uint32_t box_bytes =
      kBoxRowBytes * (args.is_flat ? kBlockPixels << args.log2_box_blocks : args.block_rows * 8);
  for (int first = 0; first < kTile.channels; first += kBoxChannels) {
    uint64_t* const full = &shared.barriers.window_full[window.stage];
    mbarrier_wait(&shared.barriers.window_empty[window.stage], window.parity ^ 1);
    expect_bytes(full, args.boxes * box_bytes);
    for (int32_t box = 0; box < args.boxes; ++box) {
      const BlockPlace place = args.place_of(at.block, box << args.log2_box_blocks);
      copy_box(shared.windows + window.stage * shared.window_bytes + box * args.box_pitch,
               &maps.residual, shared_address_of(full), at.channel + first, place.column, place.row,
               place.image);
    }
    window.advance(args.window_stages);
  }
}

// To the L2 cache.
template <Tile kTile>
__device__ __forceinline__ void prefetch_residual_boxes(const WindowArguments& args,
                                                        const WindowMaps& maps,
                                                        const WindowTile& at) {
  for (int32_t box = 0; box < args.boxes; ++box) {
    const BlockPlace place = args.place_of(at.block, box << args.log2_box_blocks);
    for (int first = 0; first < kTile.channels; first += kBoxChannels) {
      prefetch_box(&maps.residual, at.channel + first, place.column, place.row, place.image);
    }
  }
}

template <Tile kTile, bool kDgrad, bool kInBoxes>
__device__ __forceinline__ void bring_windows(const WindowArguments& args, const WindowMaps& maps,
                                              const WindowMemory<kTile>& shared, int32_t first_tile,
                                              int32_t tile_step) {
  RingPosition window, filter;
  KernelBefore before;
  bool brings_filter = !args.lays_filter;
  for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step) {
    const WindowTile at = WindowTile::at<kTile>(args, tile);
    // Where the ring is too short to reach the residual from here.
    if (kInBoxes && args.chunks + boxes_of(kTile) > args.window_stages) {
      prefetch_residual_boxes<kTile>(args, maps, at);
    }
    for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
      uint64_t* const full = &shared.barriers.window_full[window.stage];
      mbarrier_wait(&shared.barriers.window_empty[window.stage], window.parity ^ 1);
      before.wait();
      expect_bytes(full, args.boxes * args.box_bytes);
      for (int32_t box = 0; box < args.boxes; ++box) {
        const BlockPlace place = args.place_of(at.block, box << args.log2_box_blocks);
        copy_box(shared.windows + window.stage * shared.window_bytes + box * args.box_pitch,
                 &maps.source, shared_address_of(full), chunk * kTile.depth,
                 args.first_w + place.column, args.first_h + place.row, place.image);
      }
      window.advance(args.window_stages);
      if (!brings_filter) continue;
      for (int32_t tap_h = 0; tap_h < args.taps_h; ++tap_h) {
        for (int32_t tap_w = 0; tap_w < args.taps_w; ++tap_w) {
          uint64_t* const there = &shared.barriers.filter_full[filter.stage];
          if (!args.resident) {
            mbarrier_wait(&shared.barriers.filter_empty[filter.stage], filter.parity ^ 1);
          }
          expect_bytes(there, uint32_t{WindowMemory<kTile>::kFilterBytes});
          FilterUnit<kTile, kDgrad>::copy(
              &maps.filter, shared.filters + filter.stage * shared.kFilterBytes,
              shared_address_of(there), chunk * kTile.depth, tap_w, tap_h, at.channel);
          filter.advance(args.filter_stages);
        }
      }
    }
    if constexpr (kInBoxes) bring_residual<kTile>(args, maps, shared, at, window);
    brings_filter = !args.resident;
  }
}

// prefetch_first_stages() of producer.cuh, of windows.
template <Tile kTile, bool kDgrad>
__device__ __forceinline__ void prefetch_first_windows(const WindowArguments& args,
                                                       const WindowMaps& maps, int32_t first_tile,
                                                       int32_t tile_step) {
  int32_t ahead = args.prefetched_windows;
  if (ahead == 0) return;
  for (int32_t tile = first_tile; tile < args.tiles && ahead > 0; tile += tile_step) {
    const WindowTile at = WindowTile::at<kTile>(args, tile);
    for (int32_t chunk = 0; chunk < args.chunks && ahead > 0; ++chunk, --ahead) {
      for (int32_t box = 0; box < args.boxes; ++box) {
        const BlockPlace place = args.place_of(at.block, box << args.log2_box_blocks);
        prefetch_box(&maps.source, chunk * kTile.depth, args.first_w + place.column,
                     args.first_h + place.row, place.image);
      }
    }
  }
  if (args.lays_filter) return;
  const int32_t chunk = first_tile % args.chunks;
  FilterUnit<kTile, kDgrad>::prefetch(&maps.filter, chunk * kTile.depth, 0, 0, 0);
}

// lay_filter() by the threads that multiply, in place of the copies that multiply_windows() waits
// for.
template <class T, Tile kTile, bool kDgrad>
__device__ __forceinline__ void lay_window_filter(const WindowArguments& args,
                                                  const WindowMemory<kTile>& shared) {
  if constexpr (sizeof(T) == 2) {
    if (!args.lays_filter) return;
    lay_filter<kTile, kDgrad, kMathGroups * 128>(args, shared.filters);
    if (threadIdx.x > 0) return;
    for (int32_t unit = 0; unit < args.chunks; ++unit) {
      release_stage(&shared.barriers.filter_full[unit], 0);
    }
  }
}

// A warpgroup's part of a tile. Calls issued() when all products are on their way.
template <class T, Tile kTile, bool kDgrad, class Issued = NothingElse>
__device__ __forceinline__ void multiply_windows(const WindowArguments& args,
                                                 const WindowMemory<kTile>& shared,
                                                 RingPosition& window, RingPosition& filter,
                                                 int32_t group, int32_t lane, StoredStage& stored,
                                                 Sums<kTile>& sums, Issued issued = {}) {
  // Rows are swizzled over their length; dgrad's filter has such of 64 channels.
  constexpr int kRowBytes = kTile.row_bytes(), kDeep = kOperandBytes / kTile.element_bytes;
  const uint64_t source_form = swizzled_form(kRowBytes, args.group_bytes);
  uint32_t windows[kRowBlocks<kTile>];  // of the group's blocks
#pragma unroll
  for (int row = 0; row < kRowBlocks<kTile>; ++row) {
    windows[row] = args.windows[group * kRowBlocks<kTile> + row];
  }
  int32_t taps = args.taps_h * args.taps_w * args.chunks;
  int32_t in_row = 0, in_chunk = 0;  // taps left in the filter's row, and in the chunk
  uint32_t row_start = 0, tap = 0;   // of the filter's row and of the tap in the window
  int32_t last_filter = -1, last_window = -1;
  bool last_of_chunk = false;
  do {
    if (in_chunk == 0) {
      mbarrier_wait(&shared.barriers.window_full[window.stage], window.parity);
      stored.release(shared.barriers.window_empty, lane);
      row_start = tap = shared.windows + window.stage * shared.window_bytes + args.first_tap_bytes;
      in_row = args.taps_w;
      in_chunk = args.taps_h * args.taps_w;
    } else if (in_row == 0) {
      row_start += args.tap_row_bytes;
      tap = row_start;
      in_row = args.taps_w;
    }
    mbarrier_wait(&shared.barriers.filter_full[filter.stage], args.resident ? 0 : filter.parity);
    const uint32_t filter_at = shared.filters + filter.stage * shared.kFilterBytes;
    uint64_t source[kRowBlocks<kTile>];
#pragma unroll
    for (int row = 0; row < kRowBlocks<kTile>; ++row) {
      source[row] = source_form | operand_address(tap + windows[row]);
    }
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kTile.depth; k += kDeep) {
      const uint64_t b =
          filter_form(kTile, kDgrad) | operand_address(filter_at + filter_step(kTile, kDgrad, k));
#pragma unroll
      for (int row = 0; row < kRowBlocks<kTile>; ++row) {
        wgmma_shared<T, kTile.channels, false, kDgrad>(
            sums[row], source[row] + k * kTile.element_bytes / 16, b);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    // What the taps before read is free now.
    if (last_filter >= 0) {
      release_stage(&shared.barriers.filter_empty[last_filter], lane);
    }
    if (last_of_chunk) release_stage(&shared.barriers.window_empty[last_window], lane);
    last_filter = args.resident ? -1 : filter.stage;
    last_window = window.stage;
    last_of_chunk = --in_chunk == 0;
    if (last_of_chunk) window.advance(args.window_stages);
    tap += args.tap_column_bytes;
    --in_row;
    filter.advance(args.filter_stages);
  } while (--taps > 0);
  issued();
  wgmma_wait<0>();
  if (last_filter >= 0) {
    release_stage(&shared.barriers.filter_empty[last_filter], lane);
  }
  release_stage(&shared.barriers.window_empty[last_window], lane);
  wgmma_settle(sums);
}

// A warpgroup's half of a tile from its sums to the result, by way of the windows' ring.
template <class T, Tile kTile, class Fused>
__device__ __forceinline__ void write_window_boxes(
    const WindowArguments& args, const WindowMaps& maps, const WindowMemory<kTile>& shared,
    RingPosition& window, StoredStage& stored, const Fused& fused, const WindowTile& at,
    int32_t warp, int32_t lane, const Sums<kTile>& sums) {
  const int32_t first_block = warp / 4 * kRowBlocks<kTile>, first_row = warp % 4 * kWarpPixels;
  const Stages stages{.full = shared.barriers.window_full,
                      .empty = shared.barriers.window_empty,
                      .first = shared.windows,
                      .bytes = static_cast<uint32_t>(shared.window_bytes),
                      .count = args.window_stages};
  const auto rows_of = [&](int row_block) -> uint32_t {
    const int32_t block = first_block + row_block;
    return (args.is_flat ? block * kBlockPixels * kBoxRowBytes : block * args.box_pitch) +
           first_row * kBoxRowBytes;
  };
  const auto store = [&](uint32_t from, int32_t channel, int row_block) {
    const BlockPlace place = args.place_of(at.block, first_block + row_block);
    if (args.is_flat) {
      store_box(from, &maps.result, channel, place.column + first_row, place.row, place.image);
      return;
    }
    // Two rows of the block, unless it has fewer.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t y = first_row / 8 + half;
      if (y >= args.block_rows) continue;
      store_box(from + half * 8 * kBoxRowBytes, &maps.result, channel, place.column, place.row + y,
                place.image);
    }
  };
  write_boxes<T, kTile, 1>(stages, window, stored, fused, at.channel, args.results.channels, lane,
                           rows_of, store, sums);
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad, Epilogue kEpilogue>
__global__ void __launch_bounds__(kThreads, blocks_of(Tile{kPixels, kChannels, kDepth, sizeof(T)}))
    windows_kernel(const __grid_constant__ WindowArguments args,
                   const __grid_constant__ WindowMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T)};
  constexpr bool kInBoxes = kEpilogue == Epilogue::kInBoxes;
  constexpr bool kFused = kEpilogue != Epilogue::kNone;
  extern __shared__ unsigned char shared_base[];
  __shared__ WindowBarriers barriers;
  __shared__ ChannelTable<kFused ? kTile.channels : 0> table;
  static_assert(kMostSharedBytes + sizeof(barriers) + sizeof(table) <= kMaxShared);
  const WindowMemory<kTile> shared(shared_base, barriers, args);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const auto tile_step = static_cast<int32_t>(gridDim.x);
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    if constexpr (kInBoxes) {
      prefetch_map(&maps.residual);
      prefetch_map(&maps.result);
    }
    for (int i = 0; i < kMaxWindowStages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.window_full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.window_empty[i], kMathGroups * 4);
    }
    for (int i = 0; i < kMaxFilterStages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.filter_full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.filter_empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();

  if (warp / 4 == kMathGroups) {
    if (lane == 0) {
      prefetch_first_windows<kTile, kDgrad>(args, maps, first_tile, tile_step);
      bring_windows<kTile, kDgrad, kInBoxes>(args, maps, shared, first_tile, tile_step);
    }
    __syncwarp();
  } else {
    if constexpr (kFused) wait_for_kernel_before();
    FusedTiles<T, kFused ? kTile.channels : 0, kMathGroups * 128> fused(args.results, table);
    if constexpr (kEpilogue == Epilogue::kFused) prefetch_residual_of<T, kTile>(args, first_tile);
    lay_window_filter<T, kTile, kDgrad>(args, shared);
    RingPosition window, filter;
    StoredStage stored;
    for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step) {
      if constexpr (kEpilogue == Epilogue::kFused)
        prefetch_residual_of<T, kTile>(args, tile + tile_step);
      const WindowTile at = WindowTile::at<kTile>(args, tile);
      fused.begin(at.channel);
      Sums<kTile> sums = {};
      multiply_windows<T, kTile, kDgrad>(args, shared, window, filter, warp / 4, lane, stored,
                                         sums);
      if constexpr (kInBoxes) {
        write_window_boxes<T, kTile>(args, maps, shared, window, stored, fused, at, warp, lane,
                                     sums);
      } else {
        const auto places = places_of<kTile>(args, at, warp, lane);
        write_tile(fused, args.results, places, at.channel, lane, sums);
      }
    }
    stored.release(barriers.window_empty, lane);
  }
}

}  // namespace haloconv::sm90::channels_last
