// The math warpgroups where a filter is 3x3, without strides, there are one chunk of channels, of
// float32 two, all weights stay in registers and a warpgroup's tile is a piece of one row. Nothing
// is left to find out between one matrix instruction and the next: a chunk's are issued one after
// the other, with no wait among them and operands that are sums of uniform numbers. mainloop.cuh,
// which takes every filter, has some 50 instructions a step.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/row_order.h"
#include "conv2d/families/halo/shared_memory.cuh"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::halo {

template <class T>
using LineSums = float[FlatShape<sizeof(T)>::kInstructions][FlatShape<sizeof(T)>::kWidth / 2];

template <class T>
class Taps3x3Mainloop {
  using Shape = FlatShape<sizeof(T)>;
  static constexpr int kTaps = 9, kChunks = Shape::kChunks;

 public:
  // The second group begins when the first has issued its first tile's instructions, so that one
  // computes while the other stages its results.
  __device__ __forceinline__ Taps3x3Mainloop(const Arguments& args, const SharedMemory& shared,
                                             int32_t group, int32_t thread,
                                             const RowOrder& order = {})
      : shared_(shared),
        stages_(args.stages),
        is_first_lane_(thread % 32 == 0),
        signals_(group == 0),
        layout_{static_cast<uint32_t>(args.window_cells), 8},
        row_step_(args.h.shift_step * args.pitch),
        column_step_(args.w.shift_step),
        first_cell_((args.h.first_shift + (args.share == Share::kRows ? group : 0)) * args.pitch +
                    args.w.first_shift) {
    const int32_t row_group = args.share == Share::kChannels ? group : 0;
    const uint4* at = static_cast<const uint4*>(args.packed) +
                      int64_t{row_group} * args.packed_steps * 128 + thread / 32 * 32 + thread % 4;
    const int32_t first = order.channel(thread % 32, 0), second = order.channel(thread % 32, 1);
#pragma unroll
    for (int i = 0; i < kChunks * kTaps; ++i, at += 128) {
      weights_[i] = operand_of_rows(at, first, second);
    }
    if (group == 1) named_barrier_sync<NamedBarrier::kChunksAhead, kMathGroups * 128>();
  }

  // All steps of a tile.
  __device__ __forceinline__ void run(LineSums<T>& sums) {
    // Each first instruction starts from zero by itself.
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (float& sum : instruction) sum = 0;
    }
    int32_t read[kChunks];  // stages
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      issue(sums, chunk);
      read[chunk] = ring_.stage;
      ring_.advance(stages_);
    }
    if (signals_) {
      named_barrier_arrive<NamedBarrier::kChunksAhead, kMathGroups * 128>();
      signals_ = false;
    }
    if constexpr (kChunks == 2) {
      wgmma_wait<1>();
      release(read[0]);
    }
    wgmma_wait<0>();
    release(read[kChunks - 1]);
    wgmma_settle(sums);
  }

 private:
  // The thread's weights of two of its warp's channels. The packed filter has channels c and c + 8
  // side by side.
  static __device__ __forceinline__ uint4 operand_of_rows(const uint4* at, int32_t first,
                                                          int32_t second) {
    const uint4 a = __ldg(at + first % 8 * 4), b = __ldg(at + second % 8 * 4);
    return {first < 8 ? a.x : a.y, second < 8 ? b.x : b.y, first < 8 ? a.z : a.w,
            second < 8 ? b.z : b.w};
  }

  // All steps of the chunk whose window is the ring's next.
  __device__ __forceinline__ void issue(LineSums<T>& sums, int chunk) {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    wgmma_fence();
    const uint32_t start =
        operand_start(shared_.stage<Element<T>::kTerms>(ring_.stage), layout_) + first_cell_;
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const uint32_t cell = start + tap / 3 * row_step_ + tap % 3 * column_step_;
#pragma unroll
      for (int i = 0; i < Shape::kInstructions; ++i) {
        wgmma<T, Shape::kWidth>(sums[i], weights_[chunk * kTaps + tap],
                                operand(cell + i * Shape::kWidth, layout_), chunk + tap > 0);
      }
    }
    wgmma_commit();
  }

  // A stage that has been read.
  __device__ __forceinline__ void release(int32_t stage) const {
    if (is_first_lane_) cuda::ptx::mbarrier_arrive(shared_.empty(stage));
  }

  const SharedMemory& shared_;
  const int32_t stages_;
  const bool is_first_lane_;
  bool signals_;  // to the other group, once
  const OperandLayout layout_;
  const int32_t row_step_, column_step_;  // cells from tap to tap
  const int32_t first_cell_;              // that the first tap meets, of this group's row
  uint4 weights_[kChunks * kTaps];
  RingPosition ring_;
};

}  // namespace haloconv::halo
