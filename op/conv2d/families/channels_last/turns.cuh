// How two warpgroups take turns with a tile each: while one writes the results of its tile, for
// which it does not need the tensor cores, the other multiplies the next.
#pragma once

#include "conv2d/families/channels_last/tile.h"
#include "cuda/mbarrier.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::sm90::channels_last {

enum class AlternatingBarrier { kTurnOfFirst = 1, kTurnOfSecond };

// A warpgroup waits until the other has issued its products.
__device__ __forceinline__ void wait_for_turn(int32_t group) {
  using enum AlternatingBarrier;
  constexpr int kBoth = kMathGroups * 128;
  group == 0 ? named_barrier_sync<kTurnOfFirst, kBoth>()
             : named_barrier_sync<kTurnOfSecond, kBoth>();
}
__device__ __forceinline__ void give_turn_to(int32_t group) {
  using enum AlternatingBarrier;
  constexpr int kBoth = kMathGroups * 128;
  group == 0 ? named_barrier_arrive<kTurnOfFirst, kBoth>()
             : named_barrier_arrive<kTurnOfSecond, kBoth>();
}

// Past the stages of a tile that the other warpgroup multiplies.
__device__ __forceinline__ void skip(RingPosition& ring, int32_t count, int32_t stages) {
  ring.stage += count;
  while (ring.stage >= stages) {
    ring.stage -= stages;
    ring.parity ^= 1;
  }
}

}  // namespace haloconv::sm90::channels_last
