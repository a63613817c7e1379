// A math warpgroup's sums: += window pixels (registers) * filter (shared memory), for each of a
// pair's phases.
//
// A step is one shift of the window: its pixels, 64 for each block of the warpgroup, are loaded
// from wherever they are to registers, in the order of the instruction, and multiplied with the
// filters of the phases that the shift serves. Two steps are in flight.
#pragma once

#include "conv2d/families/phase_pairs/pattern.h"
#include "conv2d/families/phase_pairs/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/named_barrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::phase_pairs {

// The block's barriers by number: cuda/named_barrier.cuh.
enum class NamedBarrier {
  kChunksAhead = 1,  // the first math group has computed its first chunks, so the second may start
};

template <int kPattern, int kBlocks, int kChannels>
class Mainloop {
 public:
  using Sums = float[kBlocks][kPhases][kChannels / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      int32_t group, int32_t thread)
      : args_(args),
        shared_(shared),
        is_first_lane_(thread % 32 == 0),
        chunks_until_signal_(group == 0 ? args.chunks_ahead : 0) {
    const int32_t lane = thread % 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t pixel = (group * kBlocks + block) * 64 + thread / 32 * 16 + i * 8 + lane / 4;
        const int32_t row = pixel >> args.log2_columns;
        const int32_t column = pixel - (row << args.log2_columns);
        const int32_t image = row >> args.log2_rows;
        const int32_t row_of_image = row - (image << args.log2_rows);
        at_[block][i] =
            static_cast<uint32_t>((image * args.image_words + row_of_image * args.row_words +
                                   args.columns_before + column + lane % 4 * args.k_words) *
                                  4);
      }
    }
    if (group == 1 && args.chunks_ahead > 0) {
      named_barrier_sync<NamedBarrier::kChunksAhead, kMathGroups * 128>();
    }
  }

  // All chunks of a tile whose phase has so many rows of taps.
  __device__ __forceinline__ void run(Sums& sums, int32_t taps) {
#pragma unroll
    for (auto& block : sums) {
#pragma unroll
      for (auto& phase : block) {
#pragma unroll
        for (float& sum : phase) sum = 0;
      }
    }
    int32_t before = -1;  // the stage of the chunk before, to be released
    int32_t chunks = args_.chunks, tap = 0;
    mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
    uint32_t window = shared_address(shared_.window(ring_.stage));
    uint32_t filter = operand_start(shared_address(shared_.filter(ring_.stage)));
    load(pixels_[0], window, 0);
    while (chunks > 0) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if constexpr (!kTwoBuffers) wgmma_wait<1>();
        // The steps before the last are done; after the second step so is all of the chunk before.
        if (i == 1 && before >= 0) {
          release(before);
          before = -1;
        }
        wgmma_fence();
        multiply(sums, i, filter);
        wgmma_commit();
        if constexpr (kTwoBuffers) wgmma_wait<1>();
        if (i + 1 < kSteps) load(pixels_[(i + 1) % kBuffers], window, i + 1);
      }
      window += args_.row_words * 4;
      filter += kEights * kSlots * kOperandUnits;
      if (++tap == taps) {
        tap = 0;
        before = ring_.stage;
        ring_.advance(args_.stages);
        if (--chunks_until_signal_ == 0) {
          named_barrier_arrive<NamedBarrier::kChunksAhead, kMathGroups * 128>();
        }
        if (--chunks > 0) {
          mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
          window = shared_address(shared_.window(ring_.stage));
          filter = operand_start(shared_address(shared_.filter(ring_.stage)));
        } else {
          window -= args_.row_words * 4;  // there is no next step, so its pixels may be any
        }
      }
      load(pixels_[0], window, 0);
    }
    wgmma_wait<0>();
    release(before);
    wgmma_settle(sums);
  }

 private:
  static constexpr int kShifts = kPatterns[kPattern].shifts;
  static constexpr int kSlots = kPatterns[kPattern].slots();
  static constexpr int kEights = kPatterns[kPattern].depth() / 8;  // of channels
  static constexpr int kSteps = kEights * kShifts;                 // of a row of taps
  static constexpr int kOperandUnits = kChannels * 2;              // 16 bytes each
  // If two blocks share a multiprocessor, there are registers for two steps' pixels, and the next
  // step's wait until the last but one is done. Otherwise each of a row's steps has its own.
  static constexpr bool kTwoBuffers = kBlocks == 1 && kSteps % 2 == 0;
  static constexpr int kBuffers = kTwoBuffers ? 2 : kSteps;
  static_assert(kTwoBuffers || kSteps >= 3);

  // A descriptor's lower word: 8 channels' halves of k follow each other.
  static __device__ __forceinline__ uint32_t operand_start(uint32_t at) {
    return (at >> 4 & 0x3fff) | 8 << 16;
  }
  static __device__ __forceinline__ uint64_t operand(uint32_t start) {
    return uint64_t{start} | uint64_t{16} << 32;
  }

  // The pixels of a step.
  __device__ __forceinline__ void load(uint4 (&pixels)[kBlocks], uint32_t window, int step) const {
    const uint32_t start =
        window + step % kShifts * 4 +
        static_cast<uint32_t>(step / kShifts * (args_.image_words / kEights)) * 4;
    const uint32_t half = static_cast<uint32_t>(args_.half_words) * 4;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const uint32_t first = start + at_[block][0], second = start + at_[block][1];
      load_word(first, pixels[block].x);
      load_word(second, pixels[block].y);
      load_word(first + half, pixels[block].z);
      load_word(second + half, pixels[block].w);
    }
  }

  static __device__ __forceinline__ void load_word(uint32_t at, uint32_t& word) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  }

  __device__ __forceinline__ void multiply(Sums& sums, int step, uint32_t filter) const {
    constexpr Pattern kOf = kPatterns[kPattern];
    const int shift = step % kShifts;
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase) {
      if (!kOf.serves(shift, phase)) continue;
      const int slot = step / kShifts * kSlots + kOf.slot(shift, phase);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        wgmma<float, kChannels>(sums[block][phase], pixels_[step % kBuffers][block],
                                operand(filter + slot * kOperandUnits), true);
      }
    }
  }

  __device__ __forceinline__ void release(int32_t stage) const {
    if (is_first_lane_) cuda::ptx::mbarrier_arrive(shared_.empty(stage));
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const bool is_first_lane_;
  int32_t chunks_until_signal_;  // until the other group may start
  RingPosition ring_;
  uint32_t at_[kBlocks][2];  // bytes from a window's start to the thread's pixels of a block
  uint4 pixels_[kBuffers][kBlocks];
};

}  // namespace haloconv::phase_pairs
