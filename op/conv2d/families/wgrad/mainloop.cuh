// The math warpgroups: sums += grad_output (registers) * window cells (shared memory).
//
// A step takes two pixels of each segment. A thread's share of the register operand is two pixels
// of two rows of its segments, so a load of 16 bytes serves two steps, or four with 16-bit types.
// The columns of each matrix instruction are the window's cells at a shift of the descriptor. Two
// steps are in flight.
#pragma once

#include "conv2d/families/wgrad/shared_memory.cuh"
#include "conv2d/families/wgrad/stage_pixels.cuh"
#include "conv2d/families/wgrad/step_cells.h"
#include "cuda/mbarrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::wgrad {

// Whether the kernel has plans whose whole segments shift (shifted_segments.h).
template <class T, int kInstructions, int kWidth, bool kBoxes>
constexpr bool kShiftsSegments =
    !kBoxes && Element<T>::kTerms == 1 && has_few_sums(kInstructions, kWidth);

// For values of one term. PreciseMainloop builds on it for values of two.
template <class T, int kInstructions, int kWidth, bool kBoxes>
class Mainloop {
 public:
  using Sums = float[kInstructions][kWidth / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      const Block& block, int32_t group, int32_t thread)
      : args_(args),
        shared_(shared),
        short_strips_(args.short_strips_of(block.split)),
        is_arriving_(thread % 32 == 0),
        sums_rows_(args.sums_rows(block, group)),
        step_cells_(2 * args.mma_channels),
        layout_{static_cast<uint32_t>(args.mma_channels),
                static_cast<uint32_t>(args.column_stride())},
        pixels_(args, shared, args.first_row_of(group) + thread / 32 * 16 + thread % 32 / 4,
                thread % 4, args.first_pixel_of(group)),
        window_(args.first_window(block.split)) {
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      cells_[i] = args.first_cell(block, args.first_instruction_of(group) + i) +
                  args.first_pixel_of(group) * args.mma_channels;
    }
  }

  // Runs one round: until the number of strips that are left is a multiple of a round's. row_sums
  // are sums of grad_output, this thread's share of row lane / 4 and of the row 8 further.
  __device__ __forceinline__ void run(Sums& sums, float (&row_sums)[2], int32_t& left) {
    accumulate_ = false;
    row_sums[0] = row_sums[1] = 0;
    do {
      if (left > short_strips_) {
        run_strip<true>(sums, row_sums, args_.group_pixels());
      } else {
        run_strip<false>(sums, row_sums, short_pixels());
      }
    } while ((--left & (args_.round_strips - 1)) > 0);
    wgmma_wait<0>();
    release();
    wgmma_settle(sums);
  }

 protected:
  using Pixels = typename StagePixels<T, kBoxes>::Pixels;
  static constexpr int kLoadPixels = 2 * Pixels::kSteps;  // of a segment
  static constexpr bool kShifts = kShiftsSegments<T, kInstructions, kWidth, kBoxes>;

  // left: pixels of each segment that are the warpgroup's. kWhole: each step has two of them, so it
  // needs no look at how many there are, which would be a fifth of a loop's instructions.
  template <bool kWhole>
  __device__ __forceinline__ void run_strip(Sums& sums, float (&row_sums)[2], int32_t left) {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    uint32_t lines = operand_start(shared_.lines(), layout_);
    int32_t left_steps = 0;  // of a short strip, those that read a line's left part: the first
    if constexpr (kShifts) {
      const int32_t shift = args_.shift_of(window_.step);
      lines += (kWhole ? shift : args_.left_part) / 2 * step_cells_;
      if (!kWhole && is_first_of_segment()) left_steps = shift / 2;
    }
    Pixels pixels;
    pixels_.load_first(ring_.stage, pixels);
    do {
#pragma unroll
      for (int i = 0; i < Pixels::kSteps; ++i) {
        uint32_t at = lines + i * step_cells_;
        if (kShifts && !kWhole && i < left_steps) at -= args_.left_part / 2 * step_cells_;
        const StepCells cells =
            kWhole ? StepCells{at, 1} : cells_of_step(left - 2 * i, at, zeros());
        run_step(sums, pixels, i, cells, [&] {
          // All of the strip's pixels are in registers: the stage may be loaded anew.
          if (i == 0 && left <= kLoadPixels) {
            cuda::ptx::mbarrier_arrive(shared_.stage_read(ring_.stage));
          }
          if (i < Pixels::kSteps - 1) return;
          if (sums_rows_) pixels.add_to(row_sums);
          pixels_.load_next_if(left > kLoadPixels, pixels);
        });
      }
      lines += Pixels::kSteps * step_cells_;
      left_steps = 0;
      // All but the last two steps are done, and with them the strip before this one.
      release();
      left -= kLoadPixels;
    } while (left > 0);
    finish_strip();
  }

  // Calls after_operand() when the step no longer needs the registers that hold the pixels.
  template <class Body>
  __device__ __forceinline__ void run_step(Sums& sums, const Pixels& pixels, int step,
                                           const StepCells& cells, Body after_operand) {
    wgmma_wait<1>();
    const uint4 operand_of_rows = pixels.operand(step);
    after_operand();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      wgmma<T, kWidth>(sums[i], operand_of_rows, operand(cells.word(cells_[i]), layout_),
                       accumulate_);
    }
    wgmma_commit();
    accumulate_ = true;
  }

  // Pixels of a short strip's segments that are the warpgroup's, whose number would be a register
  // too many.
  __device__ __forceinline__ int32_t short_pixels() const {
    const int32_t group = __shfl_sync(~0u, static_cast<int32_t>(this_thread()) / 128, 0);
    return group == 0 ? args_.short_pixels_of[0] : args_.short_pixels_of[1];
  }
  // Whether the warpgroup has the first pixels of each segment.
  __device__ __forceinline__ bool is_first_of_segment() const {
    return args_.share != Share::kPixels ||
           __shfl_sync(~0u, static_cast<int32_t>(this_thread()) / 128, 0) == 0;
  }
  __device__ __forceinline__ uint32_t zeros() const { return shared_address(shared_.zeros()) / 16; }

  // Goes on to the next strip.
  __device__ __forceinline__ void finish_strip() {
    done_ = ring_.stage;
    ring_.advance(args_.stages);
    args_.advance(window_);
    if (args_.is_start(window_.step) && !args_.holds_two_windows()) {
      // The next window takes the place of lines that steps in flight still read.
      wgmma_wait<0>();
      release();
    }
#pragma unroll
    for (int& cell : cells_) cell = args_.in_ring(cell + args_.cells_to(window_));
  }

  // Releases the lines of the strip that has been read, if there is one.
  __device__ __forceinline__ void release() {
    if (done_ >= 0 && is_arriving_) cuda::ptx::mbarrier_arrive(shared_.lines_read(done_));
    done_ = -1;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t short_strips_;  // the last ones
  const bool is_arriving_, sums_rows_;
  const uint32_t step_cells_;  // from one step to the next
  const OperandLayout layout_;
  StagePixels<T, kBoxes> pixels_;
  int32_t cells_[kInstructions];  // where an instruction's columns begin in the ring
  Window window_;
  RingPosition ring_;
  int32_t done_ = -1;  // a stage that only steps in flight may still read, or -1
  bool accumulate_ = false;
};

}  // namespace haloconv::wgrad
