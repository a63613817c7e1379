// The math warpgroups' steps on float32 that is not rounded to TF32: each value is the sum of two
// that are, a high part and a low one, and three of the four products of two such sums count.
//
// The tensor core's own sums truncate. So the steps of a load are a turn, whose sums go from the
// accumulators to registers that add as float32 does, the small products first.
#pragma once

#include <utility>

#include "conv2d/families/wgrad/mainloop.cuh"

namespace haloconv::sm90::wgrad {

template <class T, int kSlots, int kWidth, bool kBoxes>
class PreciseMainloop : Mainloop<T, kSlots, kWidth, kBoxes> {
  using Base = Mainloop<T, kSlots, kWidth, kBoxes>;
  using Base::args_;
  using Base::cells_;
  using Base::layout_;
  using Base::pixels_;
  using Base::ring_;
  using Base::shared_;
  using Base::step_cells_;
  using Base::window_;
  using typename Base::Pixels;

 public:
  using Base::Base;
  using typename Base::Sums;

  // As Mainloop's.
  __device__ __forceinline__ void run(Sums& sums, float (&row_sums)[2], int32_t& left) {
    row_sums[0] = row_sums[1] = 0;
#pragma unroll
    for (auto& slot : sums) {
#pragma unroll
      for (float& sum : slot) sum = 0;
    }
    do {
      run_strip(sums, row_sums);
    } while ((--left & (args_.round_strips - 1)) > 0);
  }

 private:
  __device__ __forceinline__ void run_strip(Sums& sums, float (&row_sums)[2]) {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    uint32_t lines = operand_start(shared_.lines(), layout_);
    Pixels pixels;
    pixels_.load_first(ring_.stage, pixels);
    int32_t loads = Base::loads_;
    do {
      uint4 high[Pixels::kSteps], low[Pixels::kSteps];
#pragma unroll
      for (int i = 0; i < Pixels::kSteps; ++i) {
        Element<T>::split(pixels.values(i), high[i], low[i]);
      }
      // All of the strip's pixels are in registers.
      if (loads == 1) cuda::ptx::mbarrier_arrive(shared_.stage_read(ring_.stage));
      if (Base::sums_rows_) pixels.add_to(row_sums);
      pixels_.load_next_if(loads > 1, pixels);
      run_turn(sums, high, low, lines, std::make_integer_sequence<int, kSlots>());
      lines += Pixels::kSteps * step_cells_;
    } while (--loads > 0);
    Base::done_ = ring_.stage;
    Base::release();
    ring_.advance(args_.stages);
    args_.advance(window_);
#pragma unroll
    for (int& cell : cells_) cell = args_.in_ring(cell + args_.cells_to(window_));
  }

  // While a slot's sums are added the tensor cores compute the next ones'.
  template <int kSteps, int... kSlot>
  __device__ __forceinline__ void run_turn(Sums& sums, const uint4 (&high)[kSteps],
                                           const uint4 (&low)[kSteps], uint32_t lines,
                                           std::integer_sequence<int, kSlot...>) {
    Sums turn;
    (multiply(turn[kSlot], high, low, lines + cells_[kSlot]), ...);
    ((wgmma_wait<kSlots - 1 - kSlot>(), add(sums[kSlot], turn[kSlot])), ...);
  }

  template <int kSteps>
  __device__ __forceinline__ void multiply(float (&turn)[kWidth / 2], const uint4 (&high)[kSteps],
                                           const uint4 (&low)[kSteps], uint32_t cells) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t at = cells + i * step_cells_;
      wgmma<T, kWidth>(turn, low[i], operand(at, layout_), i > 0);
      wgmma<T, kWidth>(turn, high[i], operand(at + args_.ring_cells, layout_), true);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      wgmma<T, kWidth>(turn, high[i], operand(cells + i * step_cells_, layout_), true);
    }
    wgmma_commit();
  }

  static __device__ __forceinline__ void add(float (&sums)[kWidth / 2], float (&turn)[kWidth / 2]) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      wgmma_settle(turn[i]);
      sums[i] += turn[i];
    }
  }
};

}  // namespace haloconv::sm90::wgrad
