// A split's share of a tile's sums: splits.h. kernel.cuh has the parts, and whole tiles.
#pragma once

#include "conv2d/device/channel_results.cuh"
#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "conv2d/families/channels_last/splits.h"
#include "cuda/dependent_launch.cuh"
#include "cuda/this_warp.cuh"

namespace haloconv::sm90::channels_last {

// Blocks compute all tiles of a split, then those of the next: they read the same units at a time.
template <Tile kTile>
struct TileShare {
  int32_t split;
  TilePosition<kTile> at;
  int32_t first_stage, stages;

  __device__ __forceinline__ TileShare(const SplitArguments& args, int32_t number)
      : split(args.tiles.quotient(number)),
        at(args.args, number - split * args.tiles.divisor),
        first_stage(split * args.split_stages),
        stages(min(stages_of_phase<kTile>(args.args, args.args.phase[0]) - first_stage,
                   args.split_stages)) {}
};

template <Tile kTile>
__device__ __forceinline__ void produce_shares(const SplitArguments& shares, const TensorMaps& maps,
                                               const SharedMemory<kTile>& shared) {
  static_assert(units_of(kTile) == 1);
  const Arguments& args = shares.args;
  const TilePhase& phase = args.phase[0];
  const int32_t chunks = (args.channels + kTile.depth - 1) / kTile.depth;
  const int32_t all = args.tiles * shares.splits;
  RingPosition ring;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < all;
       number += static_cast<int32_t>(gridDim.x)) {
    const TileShare<kTile> share(shares, number);
    const SourceColumn source(args, phase, share.at.first_pixel);
    int32_t tap = share.first_stage / chunks;
    int32_t channel = (share.first_stage - tap * chunks) * kTile.depth;
    for (int32_t left = share.stages; left > 0; --left) {
      const int32_t row = shares.taps_w.quotient(tap), column = tap - row * phase.taps_w;
      mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);
      const uint32_t barrier = shared_address_of(&shared.full[ring.stage]);
      const uint32_t stage = shared.stage(ring.stage);
      expect_bytes(&shared.full[ring.stage], SharedMemory<kTile>::kStageBytes);
      source.copy(stage, &maps.source[0], barrier, channel,
                  phase.offset_w + column * args.offset_step_w,
                  phase.offset_h + row * args.offset_step_h);
      FilterUnit<kTile, false>::copy(&maps.filter, stage + SharedMemory<kTile>::kFilter, barrier,
                                     channel, phase.tap_w + column * args.tap_step_w,
                                     phase.tap_h + row * args.tap_step_h, share.at.first_channel);
      channel += kTile.depth;
      if (channel >= args.channels) {
        channel = 0;
        ++tap;
      }
      ring.advance(args.stages);
    }
  }
}

// Where a thread's pixels of a share are among the partial sums.
template <Tile kTile>
__device__ __forceinline__ Places<kRowBlocks<kTile>> partial_places(const Arguments& args,
                                                                    const TileShare<kTile>& share,
                                                                    int32_t warp, int32_t lane) {
  const int32_t pixels = args.phase[0].pixels;
  Places<kRowBlocks<kTile>> places;
#pragma unroll
  for (int i = 0; i < Places<kRowBlocks<kTile>>::kCount; ++i) {
    const int32_t number =
        pixel_number(share.at.first_pixel, warp / 4 * kRowBlocks<kTile>, warp, lane, i);
    places.inside[i] = number < pixels;
    places.at[i] = (int64_t{share.split} * pixels + number) * args.results.channels;
  }
  return places;
}

// What a kernel of shares does: one warp brings them, the warpgroups multiply them, and
// write(share, warp, lane, sums) has the results of each.
template <class T, Tile kTile, class Write>
__device__ __forceinline__ void compute_shares(const SplitArguments& shares, const TensorMaps& maps,
                                               unsigned char* shared_base, uint64_t* barriers,
                                               const Write& write) {
  const SharedMemory<kTile> shared(shared_base, barriers);
  const Arguments& args = shares.args;
  const int32_t warp = this_warp();
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    prefetch_map(&maps.source[0]);
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(&shared.full[i], 1);
      cuda::ptx::mbarrier_init(&shared.empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp / 4 == kMathGroups) {
    if (lane == 0) produce_shares<kTile>(shares, maps, shared);
    __syncwarp();
    return;
  }
  RingPosition ring;
  StoredStage stored;
  const int32_t all = args.tiles * shares.splits;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < all;
       number += static_cast<int32_t>(gridDim.x)) {
    const TileShare<kTile> share(shares, number);
    Sums<kTile> sums = {};
    multiply<T, kTile, false>(shared, ring, share.stages, warp / 4, lane, args.stages, stored,
                              sums);
    write(share, warp, lane, sums);
  }
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <class T, int kPixels, int kChannels, int kDepth>
__global__ void __launch_bounds__(kThreads, 2)
    channels_last_splits_kernel(const __grid_constant__ SplitArguments shares,
                                const __grid_constant__ TensorMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T)};
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  Results results = shares.args.results;
  results.to = shares.partial;
  compute_shares<T, kTile>(shares, maps, shared_base, barriers,
                           [&](const auto& share, int32_t warp, int32_t lane, auto& sums) {
                             write_results<float>(
                                 results, partial_places<kTile>(shares.args, share, warp, lane),
                                 share.at.first_channel, lane, sums);
                           });
}

}  // namespace haloconv::sm90::channels_last
