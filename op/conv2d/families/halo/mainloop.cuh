// The math warpgroups: accumulators += weights (registers) * window cells (shared memory).
//
// A step is one tap of one chunk: 8 channels of float32, or 16 of a 16-bit type. Its weights were
// packed in the order of the instruction's registers. They are loaded straight from the L2 cache,
// kBatchSteps steps at a time and one batch ahead: all loads share one of the hardware's
// scoreboards, so waiting for one means waiting for the latest. Kernels with a fusion first
// prefetch them to the L1 cache. Instances with resident weights load them once for all tiles.
//
// A step's pixels are the window's cells from the tap's cell on, so a tap only shifts the operand's
// descriptor. Two steps are in flight. All that the next step needs is computed before the wait for
// the step before those two: between that wait and the next instruction the tensor cores have only
// one step left to do.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/shared_memory.cuh"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::halo {

// For values of one term. PreciseMainloop builds on it for values of two.
template <class T, int kInstructions, int kWidth, bool kFused>
class Mainloop {
 public:
  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      int32_t group, int32_t thread, int32_t split)
      : args_(args),
        shared_(shared),
        is_first_lane_(thread % 32 == 0),
        group_(group),
        first_split_step_(split * args.split_chunks * args.taps),
        chunks_(min(args.split_chunks, args.chunks - split * args.split_chunks)),
        // The ring must have more windows than the distance needs, but not so many that the first
        // group, which is at most `stages` chunks ahead, could signal twice before the second has
        // waited once.
        stays_ahead_(kFused && kResident == 0 && args.chunks_ahead > 0 &&
                     args.stages > args.chunks_ahead + 1 &&
                     args.stages < args.chunks_ahead + chunks_),
        chunks_until_signal_(group == 0 ? args.chunks_ahead : 0),
        layout_{static_cast<uint32_t>(args.window_cells),
                static_cast<uint32_t>(args.patches ? args.pitch : 8)} {
    const auto share = [&](Share axis) { return args.share == axis ? group : 0; };
    const int32_t rows = args.patches ? kWidth / 8 : 1;
    const int32_t columns = args.patches ? 8 : kWidth;
    const int32_t across = args.group_columns / columns;
    const int32_t in_image = args.group_rows / rows * across;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      const int32_t image = i / in_image + share(Share::kImages) * args.group_images;
      const int32_t row = i % in_image / across * rows + share(Share::kRows) * args.group_rows;
      const int32_t column = i % across * columns + share(Share::kColumns) * args.group_columns;
      first_cell_[i] = image * args.image_cells + row * args.pitch + column;
    }
    if constexpr (kResident > 0) {
      start_weights(0);
#pragma unroll
      for (int i = 0; i < kResident; ++i) load_weights(weights_[i], i < steps_to_load_);
    }
    if (group == 1 && args.chunks_ahead > 0 && !stays_ahead_) wait_for_other_group();
  }

  // Loads the first weights of a tile; beyond the last tile, that one's.
  __device__ __forceinline__ void begin_weights(uint32_t index) {
    if constexpr (kResident > 0) return;
    start_weights(min(index, args_.tiles - 1));
    load_batch(batches_[0], true);
  }

  // All steps of the tile whose first weights have been loaded last.
  __device__ __forceinline__ void run(float (&sums)[kInstructions][kWidth / 2]) {
    if (stays_ahead_) restart_ahead();
    begin_window();
    chunk_ = tap_ = 0;
    // The instruction could start from zero by itself. Set here, the compiler knows that the sums'
    // registers are free until this point.
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (float& sum : instruction) sum = 0;
    }
    if constexpr (kResident > 0) {
      run_resident(sums);
    } else {
      load_tap_cells(tap_cells_, 0);
      for (;;) {
        if (run_batch(sums, batches_[0], batches_[1])) break;
        if (run_batch(sums, batches_[1], batches_[0])) break;
      }
    }
    wgmma_wait<0>();
    release(done_before_);
    release(done_);
    done_ = done_before_ = -1;
    wgmma_settle(sums);
  }

 protected:
  using Batch = uint4[kBatchSteps];
  using TapCells = uint32_t[kBatchSteps];
  static constexpr int kTapsAt = 2;  // the step during which the next batch's are loaded
  static constexpr int kResident = resident_steps(kWidth);
  static constexpr int kPrefetchBatches = 2;

  // Some steps; true after the tile's last.
  __device__ __forceinline__ bool run_batch(float (&sums)[kInstructions][kWidth / 2],
                                            const Batch& weights, Batch& next_weights) {
    TapCells next_tap_cells;
#pragma unroll
    for (int i = 0; i < kBatchSteps; ++i) {
      compute(sums, weights[i], window_ + tap_cells_[i]);
      if (i == 1) {
        steps_to_load_ -= kBatchSteps;
        load_batch(next_weights, steps_to_load_ > 0);
      }
      if (i == kTapsAt) load_tap_cells(next_tap_cells, tap_ + kBatchSteps - kTapsAt);
      if (advance()) return true;
    }
#pragma unroll
    for (int i = 0; i < kBatchSteps; ++i) tap_cells_[i] = next_tap_cells[i];
    return false;
  }

  // All steps of a tile, by weights that stay.
  __device__ __forceinline__ void run_resident(float (&sums)[kInstructions][kWidth / 2]) {
    uint32_t tap_cell = shared_.tap_cells()[0];
#pragma unroll
    for (int i = 0; i < kResident; ++i) {
      compute(sums, weights_[i], window_ + tap_cell);
      tap_cell = shared_.tap_cells()[tap_ + 1];
      if (advance()) return;
    }
  }

  // One step, of the window's cells from `start` on.
  __device__ __forceinline__ void compute(float (&sums)[kInstructions][kWidth / 2],
                                          const uint4& weights, uint32_t start) {
    wgmma_wait<1>();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
      wgmma<T, kWidth>(sums[i], weights, operand(start + first_cell_[i], layout_), true);
    }
    wgmma_commit();
    // The wait was for the step before the last: a stage that it was the last to read is free, and
    // so, when it was the last of the batch before, are that batch's registers.
    release(done_before_);
    done_before_ = done_;
    done_ = -1;
  }

  // To the next step; true after the tile's last.
  __device__ __forceinline__ bool advance() {
    if (++tap_ < args_.taps) return false;
    tap_ = 0;
    done_ = ring_.stage;
    ring_.advance(args_.stages);
    if (--chunks_until_signal_ == 0) signal_other_group();
    if (++chunk_ == chunks_) return true;
    begin_window();
    return false;
  }

  // Waits for the ring's next window.
  __device__ __forceinline__ void begin_window() {
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    window_ = operand_start(shared_.stage<Element<T>::kTerms>(ring_.stage), layout_);
  }

  // A stage that has been read; negative: none.
  __device__ __forceinline__ void release(int32_t stage) {
    if (stage >= 0 && is_first_lane_) cuda::ptx::mbarrier_arrive(shared_.empty(stage));
  }

  // The first group is some chunks ahead of the second, so that one computes while the other writes
  // its results. Reading a residual delays a group, and the distance would be lost if it were not
  // restored with every tile.
  __device__ __forceinline__ void restart_ahead() {
    if (group_ == 0) {
      chunks_until_signal_ = args_.chunks_ahead;
    } else {
      wait_for_other_group();
    }
  }
  __device__ __forceinline__ void signal_other_group() {
    named_barrier_arrive<NamedBarrier::kChunksAhead, kMathGroups * 128>();
  }
  __device__ __forceinline__ void wait_for_other_group() {
    named_barrier_sync<NamedBarrier::kChunksAhead, kMathGroups * 128>();
  }

  __device__ __forceinline__ void load_tap_cells(TapCells& cells, int32_t first_tap) const {
#pragma unroll
    for (int i = 0; i < kBatchSteps; ++i) cells[i] = shared_.tap_cells()[first_tap + i];
  }

  // Goes to the first weights of a tile.
  __device__ __forceinline__ void start_weights(uint32_t index) {
    const TilePosition tile(args_, index);
    const int32_t row_groups =
        args_.row_tiles * (args_.share == Share::kChannels ? kMathGroups : 1);
    const int32_t row_group =
        tile.group * row_groups + tile.first_row(args_, group_) / kRowsOfGroup;
    const int64_t first_step = int64_t{row_group} * args_.packed_steps + first_split_step_;
    weights_at_ = static_cast<const uint4*>(args_.packed) + first_step * 128 + this_thread() % 128;
    steps_to_load_ = chunks_ * args_.taps;
  }

  // The next batch, if the tile has one; with a fusion also brings a later one nearer.
  __device__ __forceinline__ void load_batch(Batch& batch, bool wanted) {
#pragma unroll
    for (uint4& weights : batch) load_weights(weights, wanted);
    if constexpr (kFused) prefetch_weights(steps_to_load_ > kPrefetchBatches * kBatchSteps);
  }

  // Prefetches the batch that lies kPrefetchBatches after the one loaded last into the L1 cache,
  // two sectors by each lane: the reads of a fusion delay weights by more than a batch takes. The
  // prefetch never goes beyond the steps that pad the packed filter.
  __device__ __forceinline__ void prefetch_weights(bool wanted) {
    constexpr int kSectorsOfStep = 32 * sizeof(uint4) / 32;  // of a warp
    const auto lane = static_cast<int32_t>(this_thread() % 32);
    const int32_t ahead = lane / kSectorsOfStep * kStepBytes + lane % kSectorsOfStep * 32 -
                          lane * static_cast<int32_t>(sizeof(uint4));
    const uint4* const batch = weights_at_ + (kPrefetchBatches - 1) * kBatchSteps * 128;
    prefetch_l1<2 * kStepBytes>(reinterpret_cast<const char*>(batch) + ahead, wanted);
  }

  // The next step's.
  __device__ __forceinline__ void load_weights(uint4& weights, bool wanted) {
    // Volatile, so that the compiler does not move the load to a later place.
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %5, 0;\n"
        "@wanted ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "+r"(weights.x), "+r"(weights.y), "+r"(weights.z), "+r"(weights.w)
        : "l"(weights_at_), "r"(static_cast<int32_t>(wanted)));
    weights_at_ += 128;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const bool is_first_lane_;
  const int32_t group_;             // of the block
  const int32_t first_split_step_;  // where this split's weights begin
  const int32_t chunks_;            // of a tile
  const bool stays_ahead_;          // from tile to tile
  int32_t chunks_until_signal_;     // until the other group may start
  const OperandLayout layout_;
  uint32_t first_cell_[kInstructions];  // of each instruction, from the window's start
  Batch batches_[2];
  uint4 weights_[kResident > 0 ? kResident : 1];  // that stay
  const uint4* weights_at_;                       // of the batch to load next
  int32_t steps_to_load_;                         // of the tile, from the batch loaded last on
  // The step to compute next.
  RingPosition ring_;
  int32_t chunk_, tap_;
  uint32_t window_;
  TapCells tap_cells_;
  // Stages whose last step was the last step, and the one before it; negative: none.
  int32_t done_ = -1, done_before_ = -1;
};

}  // namespace haloconv::halo
