// Brings patches of grad_output to shared memory, each channel's pixels side by side.
#pragma once

#include "conv2d/families/implicit_gemm/window_loader.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::windows_wgrad {

// A thread copies from one place of a patch, of every so many'th channel, as many at a time as
// bring all of them with as many times as a warp has of two depths to multiply.
template <class T, int kRows>
class GradOutputLoader {
 public:
  // Of what is outside of grad_output zeros.
  __device__ __forceinline__ GradOutputLoader(const Arguments& args, const BlockPosition& at,
                                              const implicit_gemm::PatchPosition& patch,
                                              uint32_t to)
      : args_(args) {
    constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
    const Strides& output = args.geometry.output;
    const auto& phase = args.forward.phases[0];
    const int32_t granule_pixels = args.granule / kElementBytes;
    const int32_t row_granules = implicit_gemm::kPatchColumns / granule_pixels;
    const int32_t granules = args.patch_rows * row_granules;  // of a channel
    const auto thread = static_cast<int32_t>(this_thread());
    const int32_t granule = thread & (granules - 1);
    const int32_t first_channel = thread / granules;
    const int32_t y = granule / row_granules;
    const int32_t x = (granule & (row_granules - 1)) * granule_pixels;
    channel_step_ = kThreads / granules;
    channels_ = args.geometry.rows - at.row - first_channel;
    line_ = grad_output_line(args.patch_rows * implicit_gemm::kPatchColumns, kElementBytes);
    to_ = to + first_channel * line_ + granule * args.granule;
    from_ = static_cast<const T*>(args.grad_output) +
            (int64_t{at.group} * args.geometry.rows + at.row + first_channel) * output.c +
            patch.image * output.n + (patch.row + y) * output.h + patch.column + x;
    const int32_t pixels = min(max(phase.w.pixels - patch.column - x, 0), granule_pixels);
    bytes_ = patch.row + y < phase.h.pixels ? pixels * kElementBytes : 0;
  }

  // The next channels.
  __device__ __forceinline__ void copy() {
    switch (args_.granule) {
      case 16:
        return copy_channels<16>();
      case 8:
        return copy_channels<8>();
      default:
        return copy_channels<4>();
    }
  }

 private:
  template <int kBytes>
  __device__ __forceinline__ void copy_channels() {
    constexpr int kCopies = kRows / (4 * kBytes);
    const int64_t step = channel_step_ * args_.geometry.output.c;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      copy_async_bytes<kBytes>(to_, from_, channels_ > 0 ? bytes_ : 0);
      from_ += step;
      to_ += channel_step_ * line_;
      channels_ -= channel_step_;
    }
  }

  const Arguments& args_;
  int32_t channel_step_, channels_, line_, bytes_;
  uint32_t to_;
  const T* from_;
};

}  // namespace haloconv::windows_wgrad
