// Brings what a step adds to shared memory: a row of grad_output, and of the input.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::windows_wgrad {

// A thread copies from one place of a row, of every so many'th channel. Of what is outside of a
// tensor it writes zeros.
template <class T, Tile kTile>
class StepLoader {
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int32_t kPixels = piece_pixels(kElementBytes);

 public:
  __device__ __forceinline__ StepLoader(const Arguments& args, const BlockPosition& at)
      : args_(args), at_(at), walk_(args, at.split) {
    row_offset_ = at.last_tap_row(args, kTile) * args.geometry.dilation_h - args.geometry.pad_top;
    aim();
  }

  __device__ __forceinline__ void copy_grad_output(uint32_t to, int32_t piece) const {
    if (walk_.has_ended() || !walk_.multiplies()) return;
    switch (args_.grad_output_granule) {
      case 16:
        return copy_channels<16>(to, piece);
      case 8:
        return copy_channels<8>(to, piece);
      default:
        return copy_channels<4>(to, piece);
    }
  }

  __device__ __forceinline__ void copy_input(uint32_t row) const {
    if (walk_.has_ended()) return;
    switch (args_.input_granule) {
      case 16:
        return copy_input_row<16>(row);
      case 8:
        return copy_input_row<8>(row);
      default:
        return copy_input_row<4>(row);
    }
  }

  __device__ __forceinline__ void next() {
    if (walk_.has_ended()) return;
    if (walk_.next(args_)) {
      aim();
    } else {
      grad_output_ += args_.geometry.output.h;
      input_ += args_.geometry.input.h;
    }
  }

 private:
  // At the walk's row.
  __device__ __forceinline__ void aim() {
    const Wgrad& g = args_.geometry;
    const int32_t image = walk_.image(args_);
    const int32_t column = walk_.column(args_, args_.pieces * kPixels);
    const auto thread = static_cast<int32_t>(this_thread());
    {
      const int32_t granules = kPieceBytes / args_.grad_output_granule;
      const int32_t granule_pixels = args_.grad_output_granule / kElementBytes;
      const int32_t x = column + (thread & (granules - 1)) * granule_pixels;
      const int32_t channel = at_.row + thread / granules;
      grad_output_ = static_cast<const T*>(args_.grad_output) +
                     (int64_t{at_.group} * g.rows + channel) * g.output.c + image * g.output.n +
                     walk_.y * g.output.h + x;
      grad_output_bytes_ = (g.q.divisor - x) * kElementBytes;
    }
    const int32_t granule_pixels = args_.input_granule / kElementBytes;
    const int32_t granule = thread & ((1 << args_.log_threads) - 1);
    const int32_t x = column - g.pad_left - args_.left_columns + granule * granule_pixels;
    const int32_t channel = at_.chunk * args_.chunk_channels + (thread >> args_.log_threads);
    input_ = static_cast<const T*>(args_.input) +
             (int64_t{at_.group} * g.channels + channel) * g.input.c + image * g.input.n +
             (walk_.y + row_offset_) * g.input.h + x;
    input_bytes_ = x < 0 ? 0 : min(max(g.w - x, 0), granule_pixels) * kElementBytes;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_channels(uint32_t to, int32_t piece) const {
    constexpr int kGranules = kPieceBytes / kBytes, kStep = kThreads / kGranules;
    constexpr int kCopies = kTile.rows / kStep;
    const auto thread = static_cast<int32_t>(this_thread());
    int32_t channel = thread / kGranules;
    to += channel * kGradOutputLine + thread % kGranules * kBytes;
    const int64_t step = kStep * args_.geometry.output.c;
    const T* from = grad_output_ + piece * kPixels;
    const int32_t bytes = min(max(grad_output_bytes_ - piece * kPieceBytes, 0), kBytes);
    const int32_t channels = args_.geometry.rows - at_.row;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      copy_async_bytes<kBytes>(to, from, channel < channels ? bytes : 0);
      from += step;
      to += kStep * kGradOutputLine;
      channel += kStep;
    }
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_input_row(uint32_t row) const {
    const auto thread = static_cast<int32_t>(this_thread());
    const int32_t granule = thread & ((1 << args_.log_threads) - 1);
    if (granule >= args_.input_granules) return;
    const int32_t step = kThreads >> args_.log_threads;
    int32_t channel = thread >> args_.log_threads;
    uint32_t to = row + channel * args_.line + granule * kBytes;
    const T* from = input_;
    const bool is_inside =
        static_cast<uint32_t>(walk_.y + row_offset_) < static_cast<uint32_t>(args_.geometry.h);
    const int32_t bytes = is_inside ? input_bytes_ : 0;
    const int32_t channels = args_.geometry.channels - at_.chunk * args_.chunk_channels;
#pragma unroll 1
    for (; channel < args_.chunk_channels; channel += step) {
      copy_async_bytes<kBytes>(to, from, channel < channels ? bytes : 0);
      from += step * args_.geometry.input.c;
      to += step * args_.line;
    }
  }

  const Arguments& args_;
  const BlockPosition& at_;
  Walk walk_;
  int32_t row_offset_;  // from an output row to the last input row that its taps meet
  const T* grad_output_;
  const T* input_;
  int32_t grad_output_bytes_;  // to the row's end, or less than none
  int32_t input_bytes_;        // of a granule
};

}  // namespace haloconv::windows_wgrad
