// fprop and dgrad by tiles that two warpgroups take turns with: tile.h. While one writes the
// results of its tile, for which it does not need the tensor cores, the other multiplies the next.
// The ring has the stages of all tiles in the order in which they are multiplied.
//
// Nothing is fused: one warpgroup has too few loads of a residual on their way, so that such calls
// took 1.1 to 1.9 times as long as by other tiles (an H200).
#pragma once

#include "conv2d/families/channels_last/copied_results.cuh"
#include "conv2d/families/channels_last/kernel.cuh"
#include "conv2d/families/channels_last/turns.cuh"
#include "cuda/registers.cuh"

namespace haloconv::sm90::channels_last {

// A warpgroup writes the zeros that go with a tile: where n tiles are multiplied, tiles i + n, i +
// 2n and so on are zeros and go with tile i. A quad writes 64 neighbouring bytes of a pixel.
template <class T, Tile kTile>
__device__ __forceinline__ void write_zeros(const Arguments& args, int32_t tile, int32_t multiplied,
                                            int32_t warp, int32_t lane) {
  for (int32_t to = tile + multiplied; to < args.tiles; to += multiplied) {
    wait_for_kernel_before();
    const TilePosition<kTile> at(args, to);
    // One after the other, as there are few registers.
#pragma unroll 1
    for (int32_t row = 0; row < kRowBlocks<kTile>; ++row) {
      const Places<1> places = places_of<1>(args, at, row, warp, lane);
#pragma unroll
      for (int i = 0; i < Places<1>::kCount; ++i) {
        if (!places.inside[i]) continue;
        for (int32_t channel = at.first_channel + lane % 4 * 8,
                     end = min(at.first_channel + kTile.channels, args.results.channels);
             channel < end; channel += 32) {
          *reinterpret_cast<uint4*>(static_cast<T*>(args.results.to) + places.at[i] + channel) =
              make_uint4(0, 0, 0, 0);
        }
      }
    }
  }
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad>
__global__ void __launch_bounds__(threads_of(Tile{kPixels, kChannels, kDepth, sizeof(T), true}), 1)
    alternating_kernel(const __grid_constant__ Arguments args,
                       const __grid_constant__ TensorMaps maps, const bool copies_results) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T), true};
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  static_assert(kMostAlternatingSharedBytes + sizeof(barriers) <= kMaxShared);
  const SharedMemory<kTile> shared(shared_base, barriers);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const auto tile_step = static_cast<int32_t>(gridDim.x);
  const int32_t group = this_warp() / 4, warp = this_warp() % 4;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  ask_for_arguments(args, group * 4 + warp);
  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_operand_maps(args, maps);
    if (copies_results) prefetch_map(&maps.result);
  }
  const bool brings = group == kMathGroups && warp == 0;
  begin_with_barriers<threads_of(kTile), 4>(shared, brings, lane);
  if (brings && lane == 0) {
    prefetch_first_stages<kTile, kDgrad>(args, maps, first_tile, tile_step);
  }

  if (group == kMathGroups) {
    release_registers<24>();
    if (brings && lane == 0) {
      produce<kTile, FilterUnit<kTile, kDgrad>, false>(args, maps, shared, first_tile, tile_step);
    }
    return;
  }
  take_registers<240>();
  RingPosition ring;
  StoredStage stored;
  // Where fewer are multiplied than there are blocks, tiles of zeros are dealt out as others are.
  const int32_t multiplied =
      multiplied_tiles(args) < tile_step ? args.tiles : multiplied_tiles(args);
  CopiedResults<T, kTile> copied(shared.stage(args.stages), group);
  int32_t owner = 0;  // of the tile
  for (int32_t tile = first_tile;; tile += tile_step, owner ^= 1) {
    // A tile's zeros are written by the group that does not multiply it, before its own next tile:
    // so the first tile's are written meanwhile, and none are left after the last.
    if (owner == group && tile != first_tile) {
      write_zeros<T, kTile>(args, tile - tile_step, multiplied, warp, lane);
    }
    if (tile >= multiplied) break;
    const int32_t stages =
        stages_of_phase<kTile>(args, args.phase[TilePosition<kTile>(args, tile).phase]);
    if (owner != group) {
      skip(ring, stages, args.stages);
      continue;
    }
    const auto hand_over = [&] {
      if (tile + tile_step < multiplied) give_turn_to(group ^ 1);
    };
    if (tile != first_tile) wait_for_turn(group);
    Sums<kTile> sums = {};
    if (stages > 0) {
      multiply<T, kTile, kDgrad>(shared, ring, stages, 0, lane, args.stages, stored, sums,
                                 hand_over);
    } else {
      wait_for_kernel_before();
      hand_over();
    }
    if (copies_results) {
      const TilePosition<kTile> at(args, tile);
      copied.write(&maps.result, at.first_pixel, at.first_channel, args.results.channels, warp,
                   lane, sums);
      continue;
    }
    const TilePosition<kTile> at(args, tile);
    write_block_by_block<T>(args, at, warp, lane, sums);
  }
  if (copies_results) copied.finish();
}

}  // namespace haloconv::sm90::channels_last
