// The gradient of filters, of 16-bit types with channels innermost on Hopper:
//
//   grad_filter[k, (tap, c)] = sum over pixels of grad_output[pixel, k] * input[pixel at tap, c]
//
// a matrix product whose depth is pixels, of which each block takes a tile and a part of the
// pixels. One warp brings patches of pixels, and math warpgroups multiply them. They sum
// grad_output for the bias too, or the other warps beside the first do.
#pragma once

#include "conv2d/families/channels_last_wgrad/bias_sums.cuh"
#include "conv2d/families/channels_last_wgrad/epilogue.cuh"
#include "conv2d/families/channels_last_wgrad/mainloop.cuh"
#include "conv2d/families/channels_last_wgrad/producer.cuh"
#include "cuda/cluster_index.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/registers.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// Registers of a thread: the block starts with as many for each, which the warpgroups share out
// anew. Asking for more than there are would wait for ever.
struct RegisterShares {
  int at_start, producer, math;

  HALOCONV_HOST_DEVICE constexpr explicit RegisterShares(const Tile& tile)
      : at_start(64 * 1024 / tile.threads() / 8 * 8),
        producer(tile.row_warpgroups > 1 ? 56 : 40),
        math((at_start * tile.threads() - producer * 128) / tile.math_threads() / 8 * 8) {}
};

// With one math warpgroup, or with two and few sums, the registers suffice as they are: at most 128
// of a thread, which leave room for a block of the kernel that adds partial sums.
HALOCONV_HOST_DEVICE constexpr bool moves_registers(const Tile& tile) {
  return tile.math_warpgroups() > 2 || (tile.math_warpgroups() == 2 && tile.quads() > 16);
}

template <class T, class TileConstant, class Args>
__global__ void __launch_bounds__(TileConstant::kTile.threads(), 1)
    channels_last_wgrad_kernel(const __grid_constant__ CUtensorMap grad_output_map,
                               const __grid_constant__ CUtensorMap input_map,
                               const __grid_constant__ Args args) {
  constexpr Tile kTile = TileConstant::kTile;
  static_assert(kTile.rows() <= kMaxRows);
  constexpr RegisterShares kRegisters(kTile);
  constexpr bool kMovesRegisters = moves_registers(kTile);
  extern __shared__ __align__(kRingAlignment) unsigned char shared_base[];
  const Shared<kTile> shared(args, shared_base);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t warp = this_warp();

  // Blocks: (outer split, tiles of a cluster, place in the cluster), the last varying fastest.
  const ClusterPlace place(args);
  const int32_t cluster = cluster_index();
  const int32_t outer_split = args.tile_clusters.quotient(cluster);
  const int32_t tile_index =
      (cluster - outer_split * args.tile_clusters.divisor) * args.cluster_tiles + place.tile;
  const int32_t split = outer_split * args.cluster_splits + place.split;
  const TilePosition tile(args, kTile, tile_index);
  const int32_t first_patch = args.first_patch(split);
  const int32_t patches = args.first_patch(split + 1) - first_patch;
  const bool sums_bias = args.grad_bias != nullptr && tile.is_first_of_columns();
  const bool adds_bias = sums_bias && !multiplies_for_bias<Args, kTile>(args);

  allow_dependents();
  // The warp that brings operands makes the barriers and goes on; the others wait for it.
  const int32_t helper = warp - 4 * kTile.math_warpgroups();
  if (helper == 0) {
    if (thread % 32 == 0) {
      const int32_t readers = 4 * kTile.math_warpgroups() + (adds_bias ? kBiasWarps : 0);
      shared.init_barriers(args.stages, static_cast<uint32_t>(readers * args.cluster_tiles));
      prefetch_map(&grad_output_map);
      prefetch_map(&input_map);
    }
    __syncwarp();
    named_barrier_arrive<kBeginBarrier, kTile.threads()>();
  } else {
    if (helper < 0) shared.template write_constants<T>(args.zero_bytes);
    named_barrier_sync<kBeginBarrier, kTile.threads()>();
  }
  if (args.cluster_tiles > 1) cluster_sync_relaxed();  // others write to its ring and barriers

  if (helper >= 0) {
    if constexpr (kMovesRegisters) release_registers<kRegisters.producer>();
    if (helper == 0) {
      if (thread % 32 == 0) {
        produce(grad_output_map, input_map, args, shared, tile, place, first_patch, patches);
      }
      __syncwarp();
    } else if (adds_bias) {
      if constexpr (kAdds<Args, kTile>) add_bias<T>(args, shared, place, helper - 1, patches);
    }
    named_barrier_arrive<kEpilogueBarrier, kTile.threads()>();
    attend_epilogue(args);
  } else {
    if constexpr (kMovesRegisters) take_registers<kRegisters.math>();
    Sums<T, kTile> sums = {};
    BiasSums bias = {};
    const int32_t warpgroup = warp / 4;
    if (kMultiplies<Args, kTile> && sums_bias && !adds_bias && warpgroup < kTile.row_warpgroups) {
      multiply<T, kMultiplies<Args, kTile>>(args, shared, place, tile, warpgroup, first_patch,
                                            patches, sums, bias);
      store_products_of_bias(shared, bias, warpgroup);
    } else {
      multiply<T, false>(args, shared, place, tile, warpgroup, first_patch, patches, sums, bias);
    }
    named_barrier_sync<kEpilogueBarrier, kTile.threads()>();
    Epilogue<T, Args, kTile>(args, shared, place, tile, tile_index, outer_split).run(sums);
  }
}

}  // namespace haloconv::sm90::channels_last_wgrad
