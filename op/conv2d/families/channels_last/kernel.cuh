// fprop and dgrad with channels innermost: arguments.h.
//
// A block stays on its multiprocessor and computes tiles. Its last warp brings operands, some
// stages ahead; the others multiply and write.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last/block_start.cuh"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "conv2d/families/channels_last/result_boxes.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last {

// Elements to channel 0 of a pixel of the destination.
__device__ __forceinline__ int64_t destination_of(const Arguments& args, const TilePhase& phase,
                                                  int32_t number) {
  const Pixel pixel(phase, number);
  return phase.destination + pixel.image * args.destination_n + pixel.row * args.destination_h +
         pixel.column * args.destination_w;
}

// Of a thread's pixels of some blocks of 64 of a tile.
template <int kBlocks, Tile kTile>
__device__ __forceinline__ Places<kBlocks> places_of(const Arguments& args,
                                                     const TilePosition<kTile>& at,
                                                     int32_t first_block, int32_t warp,
                                                     int32_t lane) {
  const TilePhase& phase = args.phase[at.phase];
  Places<kBlocks> places;
#pragma unroll
  for (int i = 0; i < Places<kBlocks>::kCount; ++i) {
    const int32_t number = pixel_number(at.first_pixel, first_block, warp, lane, i);
    places.inside[i] = number < phase.pixels;
    places.at[i] = destination_of(args, phase, number);
  }
  return places;
}

// Writes the tile of one warpgroup, a block of 64 pixels at a time: the places of all blocks would
// not fit the registers.
template <class T, Tile kTile>
__device__ __forceinline__ void write_block_by_block(const Arguments& args,
                                                     const TilePosition<kTile>& at, int32_t warp,
                                                     int32_t lane, Sums<kTile>& sums) {
#pragma unroll
  for (int row = 0; row < kRowBlocks<kTile>; ++row) {
    auto& of_row = reinterpret_cast<float (&)[1][kTile.channels / 2]>(sums[row]);
    write_results<T>(args.results, places_of<1>(args, at, row, warp, lane), at.first_channel, lane,
                     of_row);
  }
}

// A tile's residual comes to the L2 cache while the tile before it is computed.
template <class T, Tile kTile>
__device__ __forceinline__ void prefetch_residual_of(const Arguments& args, int32_t tile) {
  if (args.results.fusion.residual == nullptr || tile >= args.tiles) return;
  const TilePosition<kTile> at(args, tile);
  const TilePhase& phase = args.phase[at.phase];
  prefetch_residual<T, kTile.pixels, kTile.channels, math_groups_of(kTile) * 128>(
      args.results, at.first_channel, [&](int32_t pixel) {
        const int32_t number = at.first_pixel + pixel;
        return Place{number < phase.pixels, destination_of(args, phase, number)};
      });
}

// A warpgroup's half of a tile from its sums to the result, by way of the ring.
template <class T, Tile kTile, class Fused>
__device__ __forceinline__ void write_column_boxes(const Arguments& args, const TensorMaps& maps,
                                                   const SharedMemory<kTile>& shared,
                                                   RingPosition& ring, StoredStage& stored,
                                                   const Fused& fused,
                                                   const TilePosition<kTile>& at, int32_t warp,
                                                   int32_t lane, const Sums<kTile>& sums) {
  const int32_t first_row = warp / 4 * kRowBlocks<kTile> * 64 + warp % 4 * kWarpPixels;
  const Stages stages{.full = shared.full,
                      .empty = shared.empty,
                      .first = shared.stages,
                      .bytes = SharedMemory<kTile>::kStageBytes,
                      .count = args.stages};
  const auto rows_of = [&](int row_block) -> uint32_t {
    return (first_row + row_block * 64) * kBoxRowBytes;
  };
  const auto store = [&](uint32_t from, int32_t channel, int row_block) {
    store_box(from, &maps.result, channel, at.first_pixel + first_row + row_block * 64, 0, 0);
  };
  write_boxes<T, kTile, boxes_of_stage(kTile)>(stages, ring, stored, fused, at.first_channel,
                                               args.results.channels, lane, rows_of, store, sums);
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad, Epilogue kEpilogue>
__global__ void __launch_bounds__(threads_of(Tile{kPixels, kChannels, kDepth, sizeof(T)}),
                                  blocks_of(Tile{kPixels, kChannels, kDepth, sizeof(T)}))
    channels_last_kernel(const __grid_constant__ Arguments args,
                         const __grid_constant__ TensorMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T)};
  constexpr int kGroups = math_groups_of(kTile);
  constexpr bool kInBoxes = kEpilogue == Epilogue::kInBoxes;
  constexpr bool kFused = kEpilogue != Epilogue::kNone;
  using Shared = SharedMemory<kTile>;
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  __shared__ ChannelTable<kFused ? kTile.channels : 0> table;
  static_assert(kMostSharedBytes + sizeof(barriers) + sizeof(table) <= kMaxShared);
  const Shared shared(shared_base, barriers);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const int32_t tile_step = tile_step_of<kTile>(args, first_tile, gridDim.x);
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  ask_for_arguments(args, warp);
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_operand_maps(args, maps);
    if constexpr (kInBoxes) {
      prefetch_map(&maps.residual);
      prefetch_map(&maps.result);
    }
  }
  const bool brings = warp / 4 == kGroups;
  begin_with_barriers<threads_of(kTile), kGroups * 4>(shared, brings, lane);

  if (brings) {
    if (lane == 0) {
      prefetch_first_stages<kTile, kDgrad>(args, maps, first_tile, tile_step);
      produce<kTile, FilterUnit<kTile, kDgrad>, kInBoxes>(args, maps, shared, first_tile,
                                                          tile_step);
    }
    __syncwarp();
  } else {
    if constexpr (kFused) wait_for_kernel_before();
    FusedTiles<T, kFused ? kTile.channels : 0, kGroups * 128> fused(args.results, table);
    if constexpr (kEpilogue == Epilogue::kFused) prefetch_residual_of<T, kTile>(args, first_tile);
    RingPosition ring;
    StoredStage stored;
    for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step) {
      if constexpr (kEpilogue == Epilogue::kFused)
        prefetch_residual_of<T, kTile>(args, tile + tile_step);
      const TilePosition<kTile> at(args, tile);
      fused.begin(at.first_channel);
      Sums<kTile> sums = {};
      const int32_t stages = stages_of_phase<kTile>(args, args.phase[at.phase]);
      if (stages > 0) {
        multiply<T, kTile, kDgrad>(shared, ring, stages, warp / 4, lane, args.stages, stored, sums);
      } else {
        wait_for_kernel_before();
      }
      if constexpr (kInBoxes) {
        write_column_boxes<T, kTile>(args, maps, shared, ring, stored, fused, at, warp, lane, sums);
      } else {
        constexpr int kRows = kRowBlocks<kTile>;
        const auto places = places_of<kRows>(args, at, warp / 4 * kRows, warp, lane);
        write_tile(fused, args.results, places, at.first_channel, lane, sums);
      }
    }
    stored.release(shared.empty, lane);
  }
}

}  // namespace haloconv::sm90::channels_last
