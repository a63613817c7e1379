// The math warpgroups' steps on float32 that is not rounded to TF32. Each value is the sum of two
// that are, a high part and a low one; three of the four products of two such sums count.
//
// The tensor core's own sums truncate. So some steps are a turn, whose sums go from the
// accumulators to registers that add as float32 does, the small products first. While one group
// waits for that, the other computes.
#pragma once

#include "conv2d/families/halo/mainloop.cuh"

namespace haloconv::sm90 {

template <class T, int kInstructions, int kWidth>
class PreciseMainloop : Mainloop<T, kInstructions, kWidth, false> {
  using Base = Mainloop<T, kInstructions, kWidth, false>;
  using Base::args_;
  using Base::begin_window;
  using Base::chunks_;
  using Base::chunks_of_lead_;
  using Base::first_cell_;
  using Base::layout_;
  using Base::release;
  using Base::ring_;
  using Base::shared_;
  using Base::tap_;
  using Base::window_;

 public:
  using Base::Base;

  // Loads the first weights of a tile; beyond the last tile, that one's.
  __device__ __forceinline__ void begin_weights(uint32_t index) {
    Base::start_weights(min(index, args_.tiles - 1));
    load_turn(true);
  }

  // All steps of the tile whose first weights have been loaded last.
  __device__ __forceinline__ void run(float (&sums)[kInstructions][kWidth / 2]) {
    tap_ = 0;
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (float& sum : instruction) sum = 0;
    }
    int32_t left = chunks_ * args_.taps;
    while (left >= kTurn) run_turn<kTurn>(sums, left);
    static_assert(kTurn == 4);
    if (left == 3) run_turn<3>(sums, left);
    if (left == 2) run_turn<2>(sums, left);
    if (left == 1) run_turn<1>(sums, left);
  }

 private:
  static constexpr int kTurn = 4;  // steps
  using Sums = float[kInstructions][kWidth / 2];

  // So many steps of those that are left.
  template <int kSteps>
  __device__ __forceinline__ void run_turn(Sums& sums, int32_t& left) {
    uint4 high[kSteps], low[kSteps];
    uint32_t start[kSteps];
    int32_t read[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      Element<T>::split(weights_[i], high[i], low[i]);
      // Not earlier: the stage that it takes may be one that this turn has to free.
      if (tap_ == 0) begin_window();
      start[i] = window_ + shared_.tap_cells()[tap_];
      read[i] = advance();
    }
    left -= kSteps;
    if (kSteps == kTurn) load_turn(left > 0);
    const uint32_t to_low = 2 * layout_.k_stride;
    Sums turn;
#pragma unroll
    for (int j = 0; j < kInstructions; ++j) {
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const uint32_t at = start[i] + first_cell_[j];
        wgmma<T, kWidth>(turn[j], low[i], operand(at, layout_), i > 0);
        wgmma<T, kWidth>(turn[j], high[i], operand(at + to_low, layout_), true);
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        wgmma<T, kWidth>(turn[j], high[i], operand(start[i] + first_cell_[j], layout_), true);
      }
      wgmma_commit();
    }
    static_assert(kInstructions == 2);
    wgmma_wait<1>();
    add(sums[0], turn[0]);
    wgmma_wait<0>();
#pragma unroll
    for (const int32_t stage : read) release(stage);
    add(sums[1], turn[1]);
  }

  // To the next step. The stage that this one is the last to read, or -1.
  __device__ __forceinline__ int32_t advance() {
    if (++tap_ < args_.taps) return -1;
    tap_ = 0;
    const int32_t stage = ring_.stage;
    ring_.advance(args_.stages);
    if (--chunks_of_lead_ == 0) Base::lead_barrier_arrive();
    return stage;
  }

  static __device__ __forceinline__ void add(float (&sums)[kWidth / 2], float (&turn)[kWidth / 2]) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      wgmma_settle(turn[i]);
      sums[i] += turn[i];
    }
  }

  __device__ __forceinline__ void load_turn(bool wanted) {
#pragma unroll
    for (uint4& weights : weights_) Base::load_weights(weights, wanted);
  }

  uint4 weights_[kTurn];  // of the next turn
};

}  // namespace haloconv::sm90
