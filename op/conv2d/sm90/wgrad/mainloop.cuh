// The math warpgroups: sums += grad_output (registers) * window cells (shared memory).
//
// A step is 8 pixels, two of each segment: a thread's part of the register operand is two pixels of
// two rows of one segment, so that loads of 16 bytes serve two steps. Each slot's columns are a
// shift of the window's descriptor. Two steps are in flight.
#pragma once

#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/round.cuh"
#include "conv2d/sm90/wgmma.cuh"
#include "conv2d/sm90/wgrad/shared_memory.cuh"
#include "conv2d/sm90/wgrad/stage_pixels.cuh"

namespace haloconv::sm90::wgrad {

template <int kSlots, int kWidth, bool kBoxes>
class Mainloop {
 public:
  using Sums = float[kSlots][kWidth / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      const Block& block, int32_t group, int32_t thread)
      : args_(args),
        shared_(shared),
        is_arriving_(thread % 32 == 0),
        sums_rows_(args.bias_partial != nullptr && block.column_tile == 0),
        pairs_(args.group_pixels() / 4),
        step_cells_(2 * args.slot_channels),
        layout_{static_cast<uint32_t>(args.slot_channels),
                static_cast<uint32_t>(args.column_stride())},
        pixels_(args, shared, args.first_row_of(group) + thread / 32 * 16 + thread % 32 / 4,
                thread % kSegments, args.first_pixel_of(group)),
        window_(args.first_window(block.split)) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      cells_[i] = args.first_cell(block, i) + args.first_pixel_of(group) * args.slot_channels;
    }
  }

  // A round of the strips that are left: until their number is one of whole rounds. row_sums: of
  // grad_output, this thread's part of rows lane / 4 and 8 more.
  __device__ __forceinline__ void run(Sums& sums, float (&row_sums)[2], int32_t& left) {
    accumulate_ = false;
    row_sums[0] = row_sums[1] = 0;
    do {
      run_strip(sums, row_sums);
    } while ((--left & (args_.round_strips - 1)) > 0);
    wgmma_wait<0>();
    release();
#pragma unroll
    for (auto& slot : sums) {
#pragma unroll
      for (float& sum : slot) wgmma_settle(sum);
    }
  }

 private:
  __device__ __forceinline__ void run_strip(Sums& sums, float (&row_sums)[2]) {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    uint32_t lines = operand_start(shared_.lines(), layout_);
    float low[4], high[4];
    pixels_.load_first(ring_.stage, low, high);
    int32_t pairs = pairs_;
    do {
      run_step(sums, low[0], high[0], low[1], high[1], lines, [&] {
        // All of the strip's pixels are in registers.
        if (pairs == 1) cuda::ptx::mbarrier_arrive(shared_.stage_read(ring_.stage));
      });
      run_step(sums, low[2], high[2], low[3], high[3], lines + step_cells_, [&] {
        if (sums_rows_) add(row_sums, low, high);
        pixels_.load_next_if(pairs > 1, low, high);
      });
      lines += 2 * step_cells_;
      // All but these two steps are done: so is the strip before this one.
      release();
    } while (--pairs > 0);
    done_ = ring_.stage;
    ring_.advance(args_.stages);
    args_.advance(window_);
#pragma unroll
    for (int& cell : cells_) cell = args_.in_ring(cell + args_.cells_to(window_));
  }

  static __device__ __forceinline__ void add(float (&row_sums)[2], const float (&low)[4],
                                             const float (&high)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      row_sums[0] += low[i];
      row_sums[1] += high[i];
    }
  }

  // Calls after_rounding() when the pixels' own registers are free.
  template <class Body>
  __device__ __forceinline__ void run_step(Sums& sums, float first, float first_8, float second,
                                           float second_8, uint32_t lines, Body after_rounding) {
    wgmma_wait<1>();
    const uint4 pixels = make_uint4(round_to_tf32(first), round_to_tf32(first_8),
                                    round_to_tf32(second), round_to_tf32(second_8));
    after_rounding();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      wgmma<float, kWidth>(sums[i], pixels, operand(lines + cells_[i], layout_), accumulate_);
    }
    wgmma_commit();
    accumulate_ = true;
  }

  // The lines of the strip that has been read, if there is one.
  __device__ __forceinline__ void release() {
    if (done_ >= 0 && is_arriving_) cuda::ptx::mbarrier_arrive(shared_.lines_read(done_));
    done_ = -1;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const bool is_arriving_, sums_rows_;
  const int32_t pairs_;        // of steps, in a strip
  const uint32_t step_cells_;  // from one step to the next
  const OperandLayout layout_;
  StagePixels<kBoxes> pixels_;
  int32_t cells_[kSlots];  // where a slot's columns begin in the ring
  Window window_;
  RingPosition ring_;
  int32_t done_ = -1;  // a stage that has been read, but for steps in flight
  bool accumulate_ = false;
};

}  // namespace haloconv::sm90::wgrad
