// The kernels of turned.h. A block stays on its multiprocessor and computes tiles, as in kernel.cuh
// and, if two warpgroups take turns, alternating_kernel.cuh.
#pragma once

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last/block_start.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "conv2d/families/channels_last/turned_mainloop.cuh"
#include "conv2d/families/channels_last/turns.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/registers.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last {

// Of threads with 128 sums and more the warp that brings operands has a group, whose registers the
// others take.
HALOCONV_HOST_DEVICE constexpr bool turned_takes_registers(const Tile& tile) {
  return TurnedPart(tile).blocks == 2 || tile.alternates;
}
HALOCONV_HOST_DEVICE constexpr int turned_threads_of(const Tile& tile) {
  return kMathGroups * 128 + (turned_takes_registers(tile) ? 128 : 32);
}

// prefetch.h: of the source.
template <Tile kTile>
__device__ __forceinline__ void prefetch_turned_stages(const Arguments& args,
                                                       const TensorMaps& maps, int32_t first_tile,
                                                       int32_t tile_step) {
  int32_t ahead = args.prefetched_stages;
  for (int32_t tile = first_tile; tile < args.tiles && ahead > 0; tile += tile_step) {
    const TilePosition<kTile> at(args, tile);
    const TilePhase& phase = args.phase[at.phase];
    const SourceColumn source(args, phase, at.first_pixel);
    UnitWalk<kTile> unit(args, phase);
    for (int32_t left = stages_of_phase<kTile>(args, phase); left > 0 && ahead > 0; --left) {
      source.prefetch(&maps.source[at.phase], unit.channel, unit.offset_w, unit.offset_h);
      unit.advance();
      --ahead;
    }
  }
}

// FilterUnit of producer.cuh, of products that are turned around: a unit comes as boxes, in the
// order of turned_rows.h.
template <Tile kTile, bool kDgrad>
struct TurnedFilterUnit {
  static __device__ __forceinline__ void copy(const CUtensorMap* map, uint32_t to, uint32_t barrier,
                                              int32_t source_channel, int32_t tap_w, int32_t tap_h,
                                              int32_t channel) {
    constexpr TurnedPart kPart(kTile);
#pragma unroll
    for (int box = 0; box < kTile.channels / kTurnedBoxRows; ++box) {
      if constexpr (kDgrad) {
        copy_box(to + box * kTurnedBoxBytes, map, barrier, channel + box * 32, tap_w, tap_h,
                 source_channel);
      } else {
        constexpr int kEach = kPart.thread_channels();
        copy_box(to + box * kTurnedBoxBytes, map, barrier, source_channel, tap_w, tap_h,
                 channel + box / kEach * kPart.channels + box % kEach);
      }
    }
  }
};

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <int kPixels, int kChannels, bool kAlternates, bool kDgrad>
__global__ void __launch_bounds__(turned_threads_of(Tile{kPixels, kChannels, 32, 4, kAlternates}),
                                  1)
    turned_kernel(const __grid_constant__ Arguments args, const __grid_constant__ TensorMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, 32, 4, kAlternates};
  constexpr TurnedPart kPart(kTile);
  using Rows = TurnedRows<kPart.blocks, kDgrad>;
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  const SharedMemory<kTile> shared(shared_base, barriers);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const int32_t blocks = static_cast<int32_t>(gridDim.x);
  const int32_t tile_step = kAlternates ? blocks : tile_step_of<kTile>(args, first_tile, blocks);
  const int32_t group = this_warp() / 4, warp = this_warp() % 4;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  ask_for_arguments(args, group * 4 + warp);
  allow_dependents();
  if (threadIdx.x == 0) prefetch_operand_maps(args, maps);
  const bool brings = group == kMathGroups && warp == 0;
  begin_with_barriers<turned_threads_of(kTile), kAlternates ? 4 : kMathGroups * 4>(shared, brings,
                                                                                   lane);
  if (group == kMathGroups) {
    if constexpr (turned_takes_registers(kTile)) release_registers<24>();
    if (brings && lane == 0) {
      prefetch_turned_stages<kTile>(args, maps, first_tile, tile_step);
      produce<kTile, TurnedFilterUnit<kTile, kDgrad>, false>(args, maps, shared, first_tile,
                                                             tile_step);
    }
    return;
  }

  if constexpr (turned_takes_registers(kTile)) take_registers<240>();
  const int32_t group_channel = kAlternates ? 0 : group * kPart.channels;
  const int32_t own_channel = group_channel + Rows::channel_of(warp, lane);
  const uint32_t filter_at =
      SharedMemory<kTile>::kFilter + group_channel * kStageRowBytes + Rows::start_of(warp, lane);
  // Where fewer are multiplied than there are blocks, tiles of zeros are dealt out as others are.
  const int32_t multiplied =
      !kAlternates || multiplied_tiles(args) < blocks ? args.tiles : multiplied_tiles(args);
  RingPosition ring;
  int32_t owner = 0;  // of an alternating tile
  for (int32_t tile = first_tile;; tile += tile_step, owner ^= 1) {
    // A tile's zeros are written by the group that does not multiply it, before its own next tile.
    if (kAlternates && owner == group && tile != first_tile) {
      write_turned_zeros<kTile>(args, tile - tile_step, multiplied, own_channel, lane);
    }
    if (tile >= multiplied) break;
    const int32_t stages =
        stages_of_phase<kTile>(args, args.phase[TilePosition<kTile>(args, tile).phase]);
    if (kAlternates && owner != group) {
      skip(ring, stages, args.stages);
      continue;
    }
    // Not before its turn may a group wait for a stage, which could be of the round after next.
    if (kAlternates && tile != first_tile) wait_for_turn(group);
    const auto hand_over = [&] {
      if (kAlternates && tile + tile_step < multiplied) give_turn_to(group ^ 1);
    };
    TurnedSums<kTile> sums = {};
    if (stages > 0) {
      multiply_turned<kTile, Rows>(shared, ring, stages, filter_at, lane, args.stages, sums,
                                   hand_over);
    } else {
      wait_for_kernel_before();
      hand_over();
    }
    const TilePosition<kTile> at(args, tile);
    const int32_t channel = at.first_channel + own_channel;
    if (channel < args.results.channels) {
      write_turned(TurnedPlaces(args, args.phase[at.phase], at.first_pixel, channel, lane), sums);
    }
  }
}

}  // namespace haloconv::sm90::channels_last
