// The math warpgroups' steps on float32 that is not rounded to TF32. Each value is the sum of two
// TF32 terms, a high one and a low one. Of the four products of two such values, all but low * low,
// which is below float32's precision, are computed.
//
// The tensor core truncates its sums. So the steps of one load are a batch: its sums, small
// products first, are added to registers that round as float32 does.
#pragma once

#include <utility>

#include "conv2d/families/wgrad/mainloop.cuh"

namespace haloconv::wgrad {

template <class T, int kInstructions, int kWidth, bool kBoxes>
class PreciseMainloop : Mainloop<T, kInstructions, kWidth, kBoxes> {
  using Base = Mainloop<T, kInstructions, kWidth, kBoxes>;
  using Base::args_;
  using Base::cells_;
  using Base::layout_;
  using Base::pixels_;
  using Base::ring_;
  using Base::shared_;
  using Base::step_cells_;
  using typename Base::Pixels;

 public:
  using Base::Base;
  using typename Base::Sums;

  // Runs one round, as Mainloop::run() does.
  __device__ __forceinline__ void run(Sums& sums, float (&row_sums)[2], int32_t& left) {
    row_sums[0] = row_sums[1] = 0;
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (float& sum : instruction) sum = 0;
    }
    do {
      run_strip(sums, row_sums, left <= Base::short_strips_);
    } while ((--left & (args_.round_strips - 1)) > 0);
  }

 private:
  __device__ __forceinline__ void run_strip(Sums& sums, float (&row_sums)[2], bool is_short) {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    uint32_t lines = operand_start(shared_.lines(), layout_);
    Pixels pixels;
    pixels_.load_first(ring_.stage, pixels);
    int32_t left = is_short ? Base::short_pixels() : args_.group_pixels();
    do {
      uint4 high[Pixels::kSteps], low[Pixels::kSteps];
#pragma unroll
      for (int i = 0; i < Pixels::kSteps; ++i) {
        Element<T>::split(pixels.values(i), high[i], low[i]);
      }
      // All of the strip's pixels are in registers.
      if (left <= Base::kLoadPixels) {
        cuda::ptx::mbarrier_arrive(shared_.stage_read(ring_.stage));
      }
      if (Base::sums_rows_) pixels.add_to(row_sums);
      pixels_.load_next_if(left > Base::kLoadPixels, pixels);
      StepCells cells[Pixels::kSteps];
#pragma unroll
      for (int i = 0; i < Pixels::kSteps; ++i) {
        cells[i] = cells_of_step(left - 2 * i, lines + i * step_cells_, Base::zeros());
      }
      run_mma_batch(sums, high, low, cells, std::make_integer_sequence<int, kInstructions>());
      lines += Pixels::kSteps * step_cells_;
      left -= Base::kLoadPixels;
    } while (left > 0);
    Base::finish_strip();
    Base::release();
  }

  // While the sums of one instruction are added, the tensor cores compute the next one's.
  template <int kSteps, int... kInstruction>
  __device__ __forceinline__ void run_mma_batch(Sums& sums, const uint4 (&high)[kSteps],
                                                const uint4 (&low)[kSteps],
                                                const StepCells (&cells)[kSteps],
                                                std::integer_sequence<int, kInstruction...>) {
    Sums batch_sums;
    (multiply(batch_sums[kInstruction], high, low, cells, cells_[kInstruction]), ...);
    ((wgmma_wait<kInstructions - 1 - kInstruction>(),
      add(sums[kInstruction], batch_sums[kInstruction])),
     ...);
  }

  template <int kSteps>
  __device__ __forceinline__ void multiply(float (&batch_sums)[kWidth / 2],
                                           const uint4 (&high)[kSteps], const uint4 (&low)[kSteps],
                                           const StepCells (&cells)[kSteps], int32_t first_cell) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t high_word = cells[i].word(first_cell);
      const uint32_t low_word = cells[i].word(first_cell + args_.ring_cells);
      wgmma<T, kWidth>(batch_sums, low[i], operand(high_word, layout_), i > 0);
      wgmma<T, kWidth>(batch_sums, high[i], operand(low_word, layout_), true);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t high_word = cells[i].word(first_cell);
      wgmma<T, kWidth>(batch_sums, high[i], operand(high_word, layout_), true);
    }
    wgmma_commit();
  }

  static __device__ __forceinline__ void add(float (&sums)[kWidth / 2],
                                             float (&batch_sums)[kWidth / 2]) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      wgmma_settle(batch_sums[i]);
      sums[i] += batch_sums[i];
    }
  }
};

}  // namespace haloconv::wgrad
