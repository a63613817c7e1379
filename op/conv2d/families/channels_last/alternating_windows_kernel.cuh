// Windows by tiles that two warpgroups take turns with: alternating_kernel.cuh, windows_kernel.cuh.
// A tile of 64 channels has as few products that writing it takes a quarter of its time.
#pragma once

#include "conv2d/families/channels_last/turns.cuh"
#include "conv2d/families/channels_last/windows_kernel.cuh"

namespace haloconv::sm90::channels_last {

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad>
__global__ void __launch_bounds__(kThreads, 1)
    alternating_windows_kernel(const __grid_constant__ WindowArguments args,
                               const __grid_constant__ WindowMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T), true};
  extern __shared__ unsigned char shared_base[];
  __shared__ WindowBarriers barriers;
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  const WindowMemory<kTile> shared(shared_base, barriers, args);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const auto tile_step = static_cast<int32_t>(gridDim.x);
  const int32_t group = this_warp() / 4, warp = this_warp() % 4;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    prefetch_map(&maps.source);
    for (int i = 0; i < kMaxWindowStages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.window_full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.window_empty[i], 4);
    }
    for (int i = 0; i < kMaxFilterStages; ++i) {
      cuda::ptx::mbarrier_init(&barriers.filter_full[i], 1);
      cuda::ptx::mbarrier_init(&barriers.filter_empty[i], 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();

  if (group == kMathGroups) {
    if (lane == 0) {
      prefetch_first_windows<kTile, kDgrad>(args, maps, first_tile, tile_step);
      bring_windows<kTile, kDgrad, false>(args, maps, shared, first_tile, tile_step);
    }
    __syncwarp();
    return;
  }
  lay_window_filter<T, kTile, kDgrad>(args, shared);
  const int32_t filter_units = args.taps_h * args.taps_w * args.chunks;
  RingPosition window, filter;
  StoredStage stored;
  int32_t owner = 0;  // of the tile
  for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step, owner ^= 1) {
    if (owner != group) {
      skip(window, args.chunks, args.window_stages);
      skip(filter, filter_units, args.filter_stages);
      continue;
    }
    if (tile != first_tile) wait_for_turn(group);
    Sums<kTile> sums = {};
    multiply_windows<T, kTile, kDgrad>(args, shared, window, filter, 0, lane, stored, sums, [&] {
      if (tile + tile_step < args.tiles) give_turn_to(group ^ 1);
    });
    const WindowTile at = WindowTile::at<kTile>(args, tile);
    write_results<T>(args.results, places_of<kTile>(args, at, warp, lane), at.channel, lane, sums);
  }
}

}  // namespace haloconv::sm90::channels_last
