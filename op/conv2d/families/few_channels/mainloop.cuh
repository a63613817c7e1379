// The math warps: products of a source row's pixels (registers) with all taps (shared memory),
// added to those of the rows above.
//
// Rows g and g + 8 of an instruction's operand are neighbouring pixels, so that a load of 8 bytes
// brings both, and their products leave as 8 bytes.
#pragma once

#include "conv2d/device/round.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::few_channels {

inline constexpr int kWarpPixels = 16;  // of an instruction

// The first of a math thread's pixels of a window: two, and kWarpPixels further on two more.
__device__ __forceinline__ int32_t pixel_of_thread(int32_t thread) {
  return thread / 32 * 2 * kWarpPixels + thread % 32 / 4 * 2;
}

template <int kRowTaps, int kColumns>
class Mainloop {
 public:
  static constexpr int kWidth = kRowTaps * kColumns;
  static constexpr int kRowValues = kColumns / 2;  // values of a thread, for a row of taps
  using Sums = float[2][kWidth / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      int32_t thread)
      : args_(args),
        shared_(shared),
        channel_(thread % 4),
        pixel_(pixel_of_thread(thread)),
        busy_chunks_(args.chunks - args.chunks / 4),
        weights_(operand_start(shared.weights(), layout())),
        ring_at_(shared_address(shared.ring()) + (channel_ * kPitch + pixel_) * 4) {}

  // The image and the first column of the following rows' window.
  __device__ __forceinline__ void begin(int32_t image, int32_t column) {
    image_ = image;
    column_ = column;
  }

  // The next source row. Calls meanwhile() in each chunk but the first ones, when the tensor cores
  // are busy, and the other warps may have come as far.
  template <class Body>
  __device__ __forceinline__ void run(Sums& sums, int32_t row, Body meanwhile) {
    const uint32_t row_at = ring_at_ + args_.shift(image_, channel_, row, column_) * 4;
    uint32_t weights = weights_;
    int32_t chunks = args_.chunks;
    do {
      mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
      const uint32_t at = row_at + ring_.stage * kStageBytes;
      // Of channels t and t + 4, t = thread % 4.
      float low[kSteps][2][2], high[kSteps][2][2];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint32_t pixels_at = at + (i * 8 * kPitch + j * kWarpPixels) * 4;
          load_shared(pixels_at, low[i][j]);
          load_shared(pixels_at + 4 * kPitch * 4, high[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        wgmma_wait<1>();
        uint4 pixels[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          pixels[j] = make_uint4(round_to_tf32(low[i][j][0]), round_to_tf32(low[i][j][1]),
                                 round_to_tf32(high[i][j][0]), round_to_tf32(high[i][j][1]));
        }
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          wgmma<float, kWidth>(sums[j], pixels[j], operand(weights, layout()), true);
        }
        wgmma_commit();
        weights += 2 * kWidth;
      }
      // Its pixels are in registers: the instructions took them.
      cuda::ptx::mbarrier_arrive(shared_.empty(ring_.stage));
      ring_.advance(args_.stages);
      if (chunks <= busy_chunks_) meanwhile();
    } while (--chunks > 0);
    wgmma_wait<0>();
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (float& sum : instruction) wgmma_settle(sum);
    }
  }

  // One row down: each row of taps meets the destination's row that the one before it met.
  __device__ __forceinline__ void shift(Sums& sums) const {
    const int32_t first_tap_row = args_.first_tap_row();
#pragma unroll
    for (auto& instruction : sums) {
#pragma unroll
      for (int tap_row = kRowTaps - 1; tap_row >= 0; --tap_row) {
#pragma unroll
        for (int i = 0; i < kRowValues; ++i) {
          const float above = tap_row > 0 ? instruction[(tap_row - 1) * kRowValues + i] : 0;
          instruction[tap_row * kRowValues + i] = tap_row == first_tap_row ? 0 : above;
        }
      }
    }
  }

 private:
  static constexpr int kSteps = kChunk / 8;

  static __device__ constexpr OperandLayout layout() { return {kWidth, 8}; }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t channel_, pixel_;  // this thread's first, of a chunk and of the window
  const int32_t busy_chunks_;      // at the end of a row
  const uint32_t weights_;
  const uint32_t ring_at_;  // this thread's pixels of stage 0
  RingPosition ring_;
  int32_t image_ = 0, column_ = 0;
};

}  // namespace haloconv::few_channels
