// Tiles of results whose rows are innermost, or shares of them: rows.h. splits_kernel.cuh has the
// parts.
#pragma once

#include "conv2d/families/channels_last/rows.h"
#include "conv2d/families/channels_last/splits_kernel.cuh"

namespace haloconv::sm90::channels_last {

// Where a thread's pixels of channel 0 are in what tiles are written to.
template <Tile kTile>
__device__ __forceinline__ Places<kRowBlocks<kTile>> row_places(const RowArguments& rows,
                                                                const TileShare<kTile>& share,
                                                                int32_t warp, int32_t lane) {
  const TilePhase& phase = rows.shares.args.phase[0];
  Places<kRowBlocks<kTile>> places;
#pragma unroll
  for (int i = 0; i < Places<kRowBlocks<kTile>>::kCount; ++i) {
    const int32_t number =
        pixel_number(share.at.first_pixel, warp / 4 * kRowBlocks<kTile>, warp, lane, i);
    const int32_t image = phase.plane.quotient(number);
    places.inside[i] = number < phase.pixels;
    places.at[i] = share.split * rows.split_step + image * rows.image_step + number -
                   image * phase.plane.divisor;
  }
  return places;
}

template <int kRowBlocks, int kHalf>
__device__ __forceinline__ void write_rows(float* to, int64_t channel_step, int32_t channels,
                                           const Places<kRowBlocks>& places, int32_t first_channel,
                                           int32_t lane, const float (&sums)[kRowBlocks][kHalf]) {
  const int32_t own_channel = first_channel + lane % 4 * 2;
  to += own_channel * channel_step;
#pragma unroll
  for (int j = 0; j < kHalf / 4; ++j) {
    if (own_channel + j * 8 >= channels) break;
#pragma unroll
    for (int i = 0; i < Places<kRowBlocks>::kCount; ++i) {
      if (!places.inside[i]) continue;
      float* const pixel = to + places.at[i];
      pixel[0] = sums[i / 2][j * 4 + i % 2 * 2];
      pixel[channel_step] = sums[i / 2][j * 4 + i % 2 * 2 + 1];
    }
    to += 8 * channel_step;
  }
}

// The parameters are the members of kTile: nvcc takes no tile as a template argument of a kernel.
template <int kPixels, int kChannels, int kDepth>
__global__ void __launch_bounds__(threads_of(Tile{kPixels, kChannels, kDepth, 4}),
                                  blocks_of(Tile{kPixels, kChannels, kDepth, 4}))
    channels_last_rows_kernel(const __grid_constant__ RowArguments rows,
                              const __grid_constant__ TensorMaps maps) {
  constexpr Tile kTile{kPixels, kChannels, kDepth, 4};
  extern __shared__ unsigned char shared_base[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  static_assert(kMostSharedBytes + sizeof(barriers) <= kMaxShared);
  const SplitArguments& shares = rows.shares;
  const Results& results = shares.args.results;
  float* const to = shares.splits == 1 ? static_cast<float*>(results.to) : shares.partial;
  compute_shares<float, kTile>(shares, maps, shared_base, barriers,
                               [&](const auto& share, int32_t warp, int32_t lane, auto& sums) {
                                 write_rows(to, rows.channel_step, results.channels,
                                            row_places<kTile>(rows, share, warp, lane),
                                            share.at.first_channel, lane, sums);
                               });
}

}  // namespace haloconv::sm90::channels_last
