// A tile's residual and results by way of the ring: after the tile's own stages the producer brings
// its residual, the math warps put the results in its place, and the copy engine takes them from
// there, while the next tile is computed. So the residual is on its way as early as operands are,
// and no address is worked out for a pixel.
//
// A warp reads, writes and copies the rows of its own sums, so that it waits for no other.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/fused_channel_results.cuh"
#include "conv2d/families/channels_last/mainloop.cuh"
#include "conv2d/families/channels_last/result_boxes.h"

namespace haloconv::sm90::channels_last {

// The ring as those who write results see it.
struct Stages {
  uint64_t *full, *empty;
  uint32_t first, bytes;  // where stage 0 begins, and from one to the next
  int32_t count;
};

// Puts activate(sums * factor + offset + residual) in the place of a box's residual, of channels
// from `first` of the tile on. rows[i] is where the warp's pixels of block i begin.
template <class T, int kRowBlocks, int kHalf, class Activate>
__device__ __forceinline__ void complete_box(const ChannelTable<2 * kHalf>& table, int first,
                                             const uint32_t (&rows)[kRowBlocks], int32_t lane,
                                             const float (&sums)[kRowBlocks][kHalf],
                                             Activate activate) {
  constexpr int kPixels = Places<kRowBlocks>::kCount;
#pragma unroll
  for (int step = 0; step < kBoxChannels; step += kStepChannels) {
    const auto word = [&](int i, int j) {
      return word_at(first_word(rows[i / 2], lane), step / 8 + j, i % 2);
    };
    uint32_t residuals[kPixels][4];
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) load_shared_bits(word(i, j), residuals[i][j]);
    }
    const StepFactors factors(table, first + step, lane % 4);
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      float values[4][2];
      factors.apply(sums[i / 2], first + step, i % 2, values);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values[j][0] += Element<T>::value(residuals[i][j], 0);
        values[j][1] += Element<T>::value(residuals[i][j], 1);
      }
      activate_step(values, activate);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        store_shared_bits(word(i, j), Element<T>::pair(values[j][0], values[j][1]));
      }
    }
  }
}

// A tile's boxes, kBoxes in a stage of the ring. rows_of(block) gives where the warp's pixels of a
// block of 64 begin in a box; store(from, channel, block) copies those pixels from there to the
// result. `stored` is the stage before, which is given back first: the ring has two stages or more.
template <class T, Tile kTile, int kBoxes, class Fused, class RowsOf, class Store>
__device__ __forceinline__ void write_boxes(const Stages& stages, RingPosition& ring,
                                            StoredStage& stored, const Fused& fused,
                                            int32_t first_channel, int32_t channels, int32_t lane,
                                            RowsOf rows_of, Store store, const Sums<kTile>& sums) {
#pragma unroll
  for (int box = 0; box < boxes_of(kTile); ++box) {
    if (box % kBoxes == 0) {
      mbarrier_wait(&stages.full[ring.stage], ring.parity);
      stored.release(stages.empty, lane);
    }
    const int32_t channel = first_channel + box * kBoxChannels;
    if (channel < channels) {
      const uint32_t start =
          stages.first + ring.stage * stages.bytes + box % kBoxes * (kTile.pixels * kBoxRowBytes);
      uint32_t rows[kRowBlocks<kTile>];
#pragma unroll
      for (int i = 0; i < kRowBlocks<kTile>; ++i) rows[i] = start + rows_of(i);
      with_quick_activation<T>(fused.quick(), [&](auto activate) {
        complete_box<T>(fused.table(), box * kBoxChannels, rows, lane, sums, activate);
      });
      // What each lane wrote is seen by the copies that one issues.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      __syncwarp();
      if (lane == 0) {
#pragma unroll
        for (int i = 0; i < kRowBlocks<kTile>; ++i) store(rows[i], channel, i);
      }
    }
    if ((box + 1) % kBoxes == 0 || box + 1 == boxes_of(kTile)) {
      stored.begin(ring.stage, lane);
      ring.advance(stages.count);
    }
  }
}

}  // namespace haloconv::sm90::channels_last
