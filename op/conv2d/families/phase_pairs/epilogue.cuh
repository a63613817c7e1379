// Writes a warpgroup's sums to the result. A thread has both phases of a pair, which are neighbours
// in a row, and eight threads have neighbouring pairs, so they write whole sectors of memory.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/phase_pairs/pair_place.cuh"

namespace haloconv::phase_pairs {

// kPairs: whether both are written at once.
template <int kBlocks, int kChannels, bool kPairs>
__device__ __forceinline__ void write_pairs(const Arguments& args, const TilePosition& tile,
                                            const float (&sums)[kBlocks][kPhases][kChannels / 2],
                                            int32_t group, int32_t thread) {
  const int32_t lane = thread % 32;
  const int32_t first_channel = tile.channel_tile * kChannels + lane % 4 * 2;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t pair = (group * kBlocks + block) * 64 + thread / 32 * 16 + half * 8 + lane / 4;
      const PairPlace place(args, tile, pair, first_channel);
      float* to = place.first;
#pragma unroll
      for (int i = 0; i < kChannels / 4; ++i) {
        const int32_t channel = i / 2 * 8 + i % 2;
        const bool has_channel = first_channel + channel < args.channels;
        const float bias =
            args.bias != nullptr && has_channel ? __ldg(args.bias + first_channel + channel) : 0.0f;
        const int at = i / 2 * 4 + half * 2 + i % 2;
        const float both[2] = {sums[block][0][at] + bias, sums[block][1][at] + bias};
        if constexpr (kPairs) {
          store_global(to, both, place.exists && has_channel);
        } else {
          const float first[1] = {both[0]}, second[1] = {both[1]};
          store_global(to, first, place.exists && has_channel);
          store_global(to + 1, second, place.has_second && has_channel);
        }
        to += (i % 2 == 0 ? 1 : 7) * args.destination_c;
      }
    }
  }
}

template <int kBlocks, int kChannels>
__device__ __forceinline__ void write_results(const Arguments& args, const TilePosition& tile,
                                              const float (&sums)[kBlocks][kPhases][kChannels / 2],
                                              int32_t group, int32_t thread) {
  if (args.pairs) {
    write_pairs<kBlocks, kChannels, true>(args, tile, sums, group, thread);
  } else {
    write_pairs<kBlocks, kChannels, false>(args, tile, sums, group, thread);
  }
}

}  // namespace haloconv::phase_pairs
