// A math warpgroup's sums: += window * filter, both in shared memory. Eight positions of a window
// follow each other, so that each shift is the same operand some positions further.
#pragma once

#include "conv2d/families/all_phases/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::all_phases {

template <class T, int kBlocks, int kColumns>
class Mainloop {
 public:
  using Sums = float[kBlocks][kColumns / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory<kColumns>& shared,
                                      int32_t group, int32_t lane)
      : args_(args),
        shared_(shared),
        window_layout_{.k_stride = static_cast<uint32_t>(args.window), .column_stride = 8},
        first_(static_cast<uint32_t>(group * kBlocks * 64 + (args.h.shifts - 1) * args.w.positions +
                                     args.w.shifts - 1)),
        shifts_(args.h.shifts * args.w.shifts),
        is_first_lane_(lane == 0) {}

  // All chunks of a tile.
  __device__ __forceinline__ void run(Sums& sums) {
#pragma unroll
    for (auto& block : sums) {
#pragma unroll
      for (float& sum : block) sum = 0;
    }
    int32_t before = -1;  // the stage of the chunk before, to be released
#pragma unroll 1
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
      uint32_t row = operand_start(shared_.window(ring_.stage), window_layout_) + first_;
      uint32_t filter = operand_start(shared_.filter(ring_.stage), filter_layout_);
      multiply(sums, row, filter);
      wgmma_wait<1>();  // for all of the chunk before
      if (before >= 0) release(before);
      int32_t column = 0;
#pragma unroll 1
      for (int32_t shift = 1; shift < shifts_; ++shift) {
        if (++column == args_.w.shifts) {
          column = 0;
          row -= args_.w.positions;
        }
        filter += 2 * kStepUnits;
        multiply(sums, row - column, filter);
      }
      before = ring_.stage;
      ring_.advance(args_.stages);
    }
    wgmma_wait<0>();
    release(before);
    wgmma_settle(sums);
  }

 private:
  static constexpr uint32_t kStepUnits = kColumns * 2;  // of 16 bytes: a step's filter

  // One shift, a group of instructions: two steps of 32 bytes of each pixel's channels.
  __device__ __forceinline__ void multiply(Sums& sums, uint32_t window, uint32_t filter) const {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        wgmma_shared<T, kColumns, false, false>(
            sums[block], operand(window + step * 2 * args_.window + block * 64, window_layout_),
            operand(filter + step * kStepUnits, filter_layout_));
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void release(int32_t stage) const {
    if (is_first_lane_) cuda::ptx::mbarrier_arrive(shared_.empty(stage));
  }

  const Arguments& args_;
  const SharedMemory<kColumns>& shared_;
  const OperandLayout window_layout_, filter_layout_{.k_stride = 8, .column_stride = 16};
  const uint32_t first_;  // the position that the group's first period meets by the first shift
  const int32_t shifts_;
  const bool is_first_lane_;
  RingPosition ring_;
};

}  // namespace haloconv::all_phases
