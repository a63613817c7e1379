// fprop and dgrad with channels innermost: arguments.h.
//
// A block stays on its multiprocessor and computes tiles. Its last warp brings operands, some
// stages ahead; the others multiply and write.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/producer.cuh"
#include "cuda/dependent_launch.cuh"

namespace haloconv::sm90::channels_last {

template <Tile kTile>
inline constexpr int kBlocks = blocks_of(kTile);

// Elements to channel 0 of a pixel of the destination.
__device__ __forceinline__ int64_t destination_of(const Arguments& args, const TilePhase& phase,
                                                  int32_t number) {
  const Pixel pixel(phase, number);
  return phase.destination + pixel.image * args.destination_n + pixel.row * args.destination_h +
         pixel.column * args.destination_w;
}

// A tile's residual comes to the L2 cache while the tile before it is computed.
template <class T, Tile kTile>
__device__ __forceinline__ void prefetch_residual_of(const Arguments& args, int32_t tile) {
  if (args.results.fusion.residual == nullptr || tile >= args.tiles) return;
  const TilePosition<kTile> at(args, tile);
  const TilePhase& phase = args.phase[at.phase];
  prefetch_residual<T, kTile.pixels, kTile.channels, kMathGroups * 128>(
      args.results, at.first_channel, [&](int32_t pixel) {
        const int32_t number = at.first_pixel + pixel;
        return Place{number < phase.pixels, destination_of(args, phase, number)};
      });
}

// Of a Tile{kPixels, kChannels, kDepth, sizeof(T)}, which nvcc takes apart only.
template <class T, int kPixels, int kChannels, int kDepth, bool kDgrad, bool kFused>
__global__ void __launch_bounds__(kThreads, kBlocks<Tile{kPixels, kChannels, kDepth, sizeof(T)}>)
    channels_last_kernel(const __grid_constant__ Arguments args,
                         const __grid_constant__ TensorMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, sizeof(T)};
  using Shared = SharedMemory<kTile>;
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  __shared__ ChannelTable<kFused ? kTile.channels : 0> table;
  const Shared shared(shared_base, barriers);
  const auto first_tile = static_cast<int32_t>(blockIdx.x);
  const auto tile_step = static_cast<int32_t>(gridDim.x);
  // The same number for all threads of a warp, which the compiler cannot see.
  const int32_t warp = __shfl_sync(0xffffffff, static_cast<int32_t>(threadIdx.x) / 32, 0);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;

  allow_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.filter);
    for (int i = 0; i < args.stages; ++i) {
      cuda::ptx::mbarrier_init(&shared.full[i], 1);
      cuda::ptx::mbarrier_init(&shared.empty[i], kMathGroups * 4);
    }
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  __syncthreads();
  wait_for_kernel_before();

  if (warp / 4 == kMathGroups) {
    if (lane == 0) {
      produce<kTile, kDgrad>(args, maps, shared, first_tile, tile_step);
    }
    __syncwarp();
  } else {
    FusedTiles<T, kFused ? kTile.channels : 0, kMathGroups * 128> fused(args.results, table);
    if constexpr (kFused) prefetch_residual_of<T, kTile>(args, first_tile);
    RingPosition ring;
    for (int32_t tile = first_tile; tile < args.tiles; tile += tile_step) {
      if constexpr (kFused) prefetch_residual_of<T, kTile>(args, tile + tile_step);
      const TilePosition<kTile> at(args, tile);
      fused.begin(at.first_channel);
      Sums<kTile> sums = {};
      const int32_t stages = stages_of_phase<kTile>(args, args.phase[at.phase]);
      if (stages > 0) {
        multiply<T, kTile, kDgrad>(shared, ring, stages, warp / 4, lane, args.stages, sums);
      }
      const TilePhase& phase = args.phase[at.phase];
      Places<kRowBlocks<kTile>> places;
#pragma unroll
      for (int i = 0; i < Places<kRowBlocks<kTile>>::kCount; ++i) {
        const int32_t block = warp / 4 * kRowBlocks<kTile> + i / 2;
        const int32_t number = at.first_pixel + block * 64 + pixel_in_block(warp % 4, lane, i % 2);
        places.inside[i] = number < phase.pixels;
        places.at[i] = destination_of(args, phase, number);
      }
      if constexpr (kFused) {
        fused.write(places, at.first_channel, lane, sums);
      } else {
        write_results<T>(args.results, places, at.first_channel, lane, sums);
      }
    }
  }
}

}  // namespace haloconv::sm90::channels_last
