// Brings patches of grad_output to shared memory, each channel's pixels side by side.
#pragma once

#include "conv2d/families/implicit_gemm/window_loader.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::windows_wgrad {

// A thread copies from one place of the patch, of every so many'th channel.
template <class T, int kRows>
class GradOutputLoader {
 public:
  __device__ __forceinline__ GradOutputLoader(const Arguments& args, const BlockPosition& at)
      : args_(args) {
    constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
    const Strides& output = args.geometry.output;
    const int32_t granule_pixels = args.granule / kElementBytes;
    const int32_t row_granules = implicit_gemm::kPatchColumns / granule_pixels;
    const int32_t granules = args.patch_rows * row_granules;  // of a channel
    // Worked out for each patch: kept over the products it would spill.
    const auto thread = static_cast<int32_t>(this_thread());
    const int32_t granule = thread & (granules - 1);
    first_channel_ = thread / granules;
    channel_step_ = kThreads / granules;
    y_ = granule / row_granules;
    x_ = (granule & (row_granules - 1)) * granule_pixels;
    channels_ = args.geometry.rows - at.row;
    line_ = grad_output_line(args.patch_rows * implicit_gemm::kPatchColumns, kElementBytes);
    to_ = first_channel_ * line_ + granule * args.granule;
    from_ = static_cast<const T*>(args.grad_output) +
            (int64_t{at.group} * args.geometry.rows + at.row + first_channel_) * output.c + x_ +
            y_ * output.h;
  }

  // Of what is outside of grad_output zeros.
  __device__ __forceinline__ void copy(const implicit_gemm::PatchPosition& patch,
                                       uint32_t to) const {
    const Strides& output = args_.geometry.output;
    const auto& phase = args_.forward.phases[0];
    const int32_t pixels = min(max(phase.w.pixels - patch.column - x_, 0),
                               args_.granule / static_cast<int32_t>(sizeof(T)));
    const int32_t bytes =
        patch.row + y_ < phase.h.pixels ? pixels * static_cast<int32_t>(sizeof(T)) : 0;
    const T* const from = from_ + patch.image * output.n + patch.row * output.h + patch.column;
    switch (args_.granule) {
      case 16:
        return copy_channels<16>(from, to + to_, bytes);
      case 8:
        return copy_channels<8>(from, to + to_, bytes);
      default:
        return copy_channels<4>(from, to + to_, bytes);
    }
  }

 private:
  template <int kBytes>
  __device__ __forceinline__ void copy_channels(const T* from, uint32_t to, int32_t bytes) const {
    const int64_t step = channel_step_ * args_.geometry.output.c;
#pragma unroll 4
    for (int32_t channel = first_channel_; channel < kRows; channel += channel_step_) {
      copy_async_bytes<kBytes>(to, from, channel < channels_ ? bytes : 0);
      from += step;
      to += channel_step_ * line_;
    }
  }

  const Arguments& args_;
  int32_t first_channel_, channel_step_, y_, x_, channels_, line_, to_;
  const T* from_;
};

}  // namespace haloconv::windows_wgrad
