// The math warpgroups' steps on float32 that is not rounded to TF32. Each value is the sum of two
// TF32 terms, a high one and a low one. Of the four products of two such values, high * high,
// high * low and low * high are computed; low * low is below float32's precision.
//
// The tensor core truncates its sums. So the steps are grouped into batches: the sums of a batch,
// small products first, are added to registers that round as float32 does. While one warpgroup
// waits for its batch, the other computes.
#pragma once

#include "conv2d/families/halo/mainloop.cuh"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth>
class PreciseMainloop : Mainloop<T, kInstructions, kWidth, false> {
  using Base = Mainloop<T, kInstructions, kWidth, false>;
  using Base::args_;
  using Base::begin_window;
  using Base::chunks_;
  using Base::chunks_until_signal_;
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
    load_mma_batch(true);
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
    while (left >= kMmaBatchSteps) run_mma_batch<kMmaBatchSteps>(sums, left);
    static_assert(kMmaBatchSteps == 4);
    if (left == 3) run_mma_batch<3>(sums, left);
    if (left == 2) run_mma_batch<2>(sums, left);
    if (left == 1) run_mma_batch<1>(sums, left);
  }

 private:
  static constexpr int kMmaBatchSteps = 4;  // steps
  using Sums = float[kInstructions][kWidth / 2];

  // So many steps of those that are left.
  template <int kSteps>
  __device__ __forceinline__ void run_mma_batch(Sums& sums, int32_t& left) {
    uint4 high[kSteps], low[kSteps];
    uint32_t start[kSteps];
    int32_t read[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      Element<T>::split(weights_[i], high[i], low[i]);
      // Waiting earlier could deadlock: this batch may have to free the stage that the window
      // needs.
      if (tap_ == 0) begin_window();
      start[i] = window_ + shared_.tap_cells()[tap_];
      read[i] = advance();
    }
    left -= kSteps;
    if (kSteps == kMmaBatchSteps) load_mma_batch(left > 0);
    const uint32_t to_low = 2 * layout_.k_stride;
    Sums batch_sums;
#pragma unroll
    for (int j = 0; j < kInstructions; ++j) {
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const uint32_t at = start[i] + first_cell_[j];
        wgmma<T, kWidth>(batch_sums[j], low[i], operand(at, layout_), i > 0);
        wgmma<T, kWidth>(batch_sums[j], high[i], operand(at + to_low, layout_), true);
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        wgmma<T, kWidth>(batch_sums[j], high[i], operand(start[i] + first_cell_[j], layout_), true);
      }
      wgmma_commit();
    }
    static_assert(kInstructions == 2);
    wgmma_wait<1>();
    add(sums[0], batch_sums[0]);
    wgmma_wait<0>();
#pragma unroll
    for (const int32_t stage : read) release(stage);
    add(sums[1], batch_sums[1]);
  }

  // To the next step. The stage that this one is the last to read, or -1.
  __device__ __forceinline__ int32_t advance() {
    if (++tap_ < args_.taps) return -1;
    tap_ = 0;
    const int32_t stage = ring_.stage;
    ring_.advance(args_.stages);
    if (--chunks_until_signal_ == 0) Base::signal_other_group();
    return stage;
  }

  static __device__ __forceinline__ void add(float (&sums)[kWidth / 2],
                                             float (&batch_sums)[kWidth / 2]) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      wgmma_settle(batch_sums[i]);
      sums[i] += batch_sums[i];
    }
  }

  __device__ __forceinline__ void load_mma_batch(bool wanted) {
#pragma unroll
    for (uint4& weights : weights_) Base::load_weights(weights, wanted);
  }

  uint4 weights_[kMmaBatchSteps];  // of the next batch
};

}  // namespace haloconv::halo
