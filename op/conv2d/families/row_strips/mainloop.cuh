// The math warps: products of a source row's pixels (registers) with all rows of taps (shared
// memory), added to those of the rows above.
#pragma once

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/device/shift_tap_rows.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/row_strips/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_160.cuh"

namespace haloconv::row_strips {

// By instruction, a thread's sums: of each row of taps kRowSums, of which four are of two pixels,
// eight apart, in two channels.
using Sums = float[2][kWidth / 2];

inline constexpr int kInstructionPixels = 64;

// The first of a math thread's pixels of a band in its first instruction; the other is eight
// further on. The first instruction of a cluster's second block has the pixels of the other's
// second, so that each block writes those of its first.
__device__ __forceinline__ int32_t pixel_of(int32_t thread, int32_t rank) {
  return thread / 128 * 2 * kInstructionPixels + rank * kInstructionPixels +
         thread % 128 / 32 * 16 + thread % 32 / 4;
}

template <class T>
class Mainloop {
 public:
  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      int32_t thread, int32_t rank)
      : args_(args),
        shared_(shared),
        weights_(operand_start(shared.weights(), layout())),
        ring_at_(shared_address(shared.ring()) +
                 (thread % 4 * args.pitch + pixel_of(thread, rank) + args.offset) * 4),
        second_((1 - 2 * rank) * kInstructionPixels * 4),
        half_(4 * args.pitch * 4) {}

  // The next source row. Calls meanwhile() between chunks, when the tensor cores are busy.
  template <class Body>
  __device__ __forceinline__ void run(Sums& sums, int32_t chunks, Body meanwhile) {
    uint32_t weights = weights_;
#pragma unroll 1
    while (chunks > 0) {
      mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
      uint32_t at = ring_at_ + ring_.stage * args_.stage_bytes;
      Pixels loaded;
      load(at, loaded);
#pragma unroll
      for (int s = 0; s < kColumnTaps; ++s) {
        wgmma_wait<1>();
        uint4 pixels[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) pixels[i] = operand_of(loaded.words[i]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 2; ++i) wgmma_160<T>(sums[i], pixels[i], operand(weights, layout()));
        wgmma_commit();
        weights += kStepBytes / 16;
        at += args_.column_step * 4;
        if (s + 1 < kColumnTaps) load(at, loaded);
      }
      // The instructions have taken its pixels from registers.
      cuda::ptx::mbarrier_arrive(shared_.empty(ring_.stage));
      ring_.advance(args_.stages);
      if (--chunks > 0) meanwhile();
    }
    wgmma_wait<0>();
    wgmma_settle(sums);
  }

  __device__ __forceinline__ void shift(Sums& sums) const {
    shift_tap_rows<kRowTaps, kRowSums>(sums, args_.first_tap_row());
  }

 private:
  static __device__ constexpr OperandLayout layout() { return {kWidth, 8}; }

  struct Pixels {
    uint32_t words[2][4];
  };

  __device__ __forceinline__ void load(uint32_t at, Pixels& pixels) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      auto& words = pixels.words[i];
      const uint32_t from = i == 0 ? at : at + second_;
      load_shared_bits(from, words[0]);
      load_shared_bits(from + 8 * 4, words[1]);
      load_shared_bits(from + half_, words[2]);
      load_shared_bits(from + half_ + 8 * 4, words[3]);
    }
  }

  static __device__ __forceinline__ uint4 operand_of(const uint32_t (&words)[4]) {
    uint4 v = make_uint4(words[0], words[1], words[2], words[3]);
    wgmma_settle(v);
    return make_uint4(copy(v.x), copy(v.y), copy(v.z), copy(v.w));
  }
  static __device__ __forceinline__ uint32_t copy(uint32_t word) {
    if constexpr (std::is_same_v<T, float>) return round_to_tf32(__uint_as_float(word));
    uint32_t copied;
    asm volatile("prmt.b32 %0, %1, 0, 0x3210;" : "=r"(copied) : "r"(word));
    return copied;
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const uint32_t weights_;
  const uint32_t ring_at_;  // this thread's first pixel of stage 0
  const int32_t second_;    // bytes from the first instruction's pixels to the second's
  const int32_t half_;      // bytes from one half of the word rows to the other
  RingPosition ring_;
};

}  // namespace haloconv::row_strips
