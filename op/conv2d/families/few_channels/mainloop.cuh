// The math warps: products of a source row's pixels (registers) with all taps (shared memory),
// added to those of the rows above.
#pragma once

#include "conv2d/device/shift_tap_rows.cuh"
#include "conv2d/families/few_channels/pixels.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::few_channels {

template <class T, int kRowTaps, int kColumns>
class Mainloop {
 public:
  static constexpr int kWidth = kRowTaps * kColumns;
  static constexpr int kRowValues = kColumns / 2;  // a thread's values for a row of taps
  using Sums = float[2][kWidth / 2];

  __device__ __forceinline__ Mainloop(const Arguments& args, const SharedMemory& shared,
                                      int32_t thread)
      : args_(args),
        shared_(shared),
        busy_chunks_(args.chunks - args.chunks / 4),
        weights_(operand_start(shared.weights(), layout())),
        pixels_(args, shared, thread) {}

  // The image and the first column of the following rows' window.
  __device__ __forceinline__ void begin(int32_t image, int32_t column) {
    image_ = image;
    column_ = column;
  }

  // The next source row. Calls meanwhile() in each chunk but the first ones, when the tensor cores
  // are busy and the other warps may have come as far.
  template <class Body>
  __device__ __forceinline__ void run(Sums& sums, int32_t row, Body meanwhile) {
    pixels_.begin(image_, row, column_);
    uint32_t weights = weights_;
    int32_t chunks = args_.chunks;
#pragma unroll 1
    do {
      mbarrier_wait(shared_.full(ring_.stage), ring_.parity);
      typename Pixels<T>::Loaded loaded;
      pixels_.load(ring_.stage, loaded);
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        wgmma_wait<1>();
        uint4 pixels[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) pixels[j] = Pixels<T>::operand(loaded, i, j);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          wgmma<T, kWidth>(sums[j], pixels[j], operand(weights, layout()), true);
        }
        wgmma_commit();
        weights += 2 * kWidth;
      }
      // The instructions have taken its pixels from registers.
      cuda::ptx::mbarrier_arrive(shared_.empty(ring_.stage));
      ring_.advance(args_.stages);
      if (chunks <= busy_chunks_) meanwhile();
    } while (--chunks > 0);
    wgmma_wait<0>();
    wgmma_settle(sums);
  }

  __device__ __forceinline__ void shift(Sums& sums) const {
    shift_tap_rows<kRowTaps, kRowValues>(sums, args_.first_tap_row());
  }

 private:
  static __device__ constexpr OperandLayout layout() { return {kWidth, 8}; }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t busy_chunks_;  // at the end of a row
  const uint32_t weights_;
  Pixels<T> pixels_;
  RingPosition ring_;
  int32_t image_ = 0, column_ = 0;
};

}  // namespace haloconv::few_channels
