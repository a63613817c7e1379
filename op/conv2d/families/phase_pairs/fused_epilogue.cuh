// Computes what is fused on sums that the same thread has written. They are float32, so nothing is
// lost, and the main loop loses no register.
#pragma once

#include "conv2d/device/fuse_values.cuh"
#include "conv2d/families/phase_pairs/pair_place.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::phase_pairs {

template <int kBlocks, int kChannels>
__device__ __forceinline__ void complete_results(const Arguments& args, const TilePosition& tile) {
  const auto thread = static_cast<int32_t>(this_thread());
  const int32_t lane = thread % 32;
#pragma unroll 1
  for (int32_t part = 0; part < kBlocks * 2; ++part) {  // a half of a block
    const int32_t pair =
        (thread / 128 * kBlocks + part / 2) * 64 + thread % 128 / 32 * 16 + part % 2 * 8 + lane / 4;
#pragma unroll 1
    for (int32_t step = 0; step < kChannels / 8; ++step) {
      const int32_t channel = tile.channel_tile * kChannels + step * 8 + lane % 4 * 2;
      const PairPlace place(args, tile, pair, channel);
      float values[kFusedAtOnce];
      OutputElement elements[kFusedAtOnce];  // two channels of a pair
#pragma unroll
      for (int i = 0; i < kFusedAtOnce; ++i) {
        const bool has_pixel = i % 2 == 0 ? place.exists : place.has_second;
        elements[i] = {
            .exists = has_pixel && channel + i / 2 < args.channels,
            .channel = channel + i / 2,
            .offset = place.first - args.destination + i / 2 * args.destination_c + i % 2};
        values[i] = elements[i].exists ? args.destination[elements[i].offset] : 0;
      }
      fuse_values<float>(args.fused_bias, args.fusion, elements, values);
#pragma unroll
      for (int i = 0; i < kFusedAtOnce; ++i) {
        if (elements[i].exists) args.destination[elements[i].offset] = values[i];
      }
    }
  }
}

}  // namespace haloconv::phase_pairs
