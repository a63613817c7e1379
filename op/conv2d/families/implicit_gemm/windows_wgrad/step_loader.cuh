// Brings what a step adds to shared memory: a row of grad_output, and of the input.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/copy_async_or_zeros.cuh"
#include "cuda/copy_granule.cuh"
#include "cuda/this_thread.cuh"

namespace haloconv::windows_wgrad {

// A thread copies from one place of a row, of every so many'th channel. Of what is outside of a
// tensor it writes zeros. Copies take issue slots from the products, so that there are as few
// instructions beside them as can be: no copy brings a part of its bytes alone, since rows end
// where granules do.
template <class T, Tile kTile>
class StepLoader {
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int32_t kPixels = piece_pixels(kElementBytes);

 public:
  __device__ __forceinline__ StepLoader(const Arguments& args, const BlockPosition& at)
      : args_(args), at_(at), walk_(args, at.split) {
    const auto thread = static_cast<int32_t>(this_thread());
    const int32_t granules = kPieceBytes / args.grad_output_granule;
    const int32_t channel = thread / granules;
    thread_to_ = grad_output_place(kTile, channel, thread % granules * args.grad_output_granule);
    channels_ = args.geometry.rows - at.row - channel;
    row_offset_ = at.last_tap_row(args, kTile) * args.geometry.dilation_h - args.geometry.pad_top;
    aim();
  }

  // Begins a piece of grad_output's row, which is copied at each of its depths or at once.
  __device__ __forceinline__ void begin_piece(uint32_t to, int32_t piece) {
    to_ = to + thread_to_;
    from_ = grad_output_ + piece * kPixels;
    const bool exists = walk_.rows > 0 && walk_.multiplies() && piece * kPixels < grad_output_left_;
    channels_left_ = exists ? channels_ : 0;
  }

  // A depth's share, if granules have so many bytes.
  template <int kBytes>
  __device__ __forceinline__ void copy_depth(int depth) {
    constexpr int kStep = kThreads / (kPieceBytes / kBytes), kCopies = kTile.rows / kStep;
    constexpr int kEvery = kCopies < kPieceDepths ? kPieceDepths / kCopies : 1;
    constexpr int kAtOnce = kCopies * kEvery / kPieceDepths;
    static_assert(kStep % 8 == 0);  // a thread's channels have their bytes in the same order
    if (depth % kEvery != 0) return;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t channel = (depth / kEvery * kAtOnce + i) * kStep;
      copy_async_or_zeros<kBytes>(to_ + channel * grad_output_line(kTile), from_,
                                  channel < channels_left_);
      from_ += kStep * args_.geometry.output.c;
    }
  }

  __device__ __forceinline__ void copy_piece(uint32_t to, int32_t piece) {
    begin_piece(to, piece);
    with_granule(args_.grad_output_granule, [&]<int kBytes>() { copy_depths<kBytes>(); });
  }

  __device__ __forceinline__ void copy_input(uint32_t row) const {
    with_granule(args_.input_granule, [&]<int kBytes>() { copy_input_row<kBytes>(row); });
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
      grad_output_left_ = g.q.divisor - x;
    }
    const int32_t granule_pixels = args_.input_granule / kElementBytes;
    const int32_t granule = thread & ((1 << args_.log_threads) - 1);
    const int32_t x = column - g.pad_left - args_.left_columns + granule * granule_pixels;
    const int32_t channel = at_.chunk * args_.chunk_channels + (thread >> args_.log_threads);
    input_ = static_cast<const T*>(args_.input) +
             (int64_t{at_.group} * g.channels + channel) * g.input.c + image * g.input.n +
             (walk_.y + row_offset_) * g.input.h + x;
    input_exists_ = x >= 0 && x < g.w;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_depths() {
#pragma unroll
    for (int depth = 0; depth < kPieceDepths; ++depth) copy_depth<kBytes>(depth);
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
    const bool exists =
        input_exists_ && walk_.rows > 0 &&
        static_cast<uint32_t>(walk_.y + row_offset_) < static_cast<uint32_t>(args_.geometry.h);
    const int32_t channels =
        exists ? args_.geometry.channels - at_.chunk * args_.chunk_channels : 0;
    const int64_t from_step = step * args_.geometry.input.c;
    const int32_t to_step = step * args_.line;
#pragma unroll 1
    for (; channel < args_.chunk_channels; channel += step) {
      copy_async_or_zeros<kBytes>(to, from, channel < channels);
      from += from_step;
      to += to_step;
    }
  }

  const Arguments& args_;
  const BlockPosition& at_;
  Walk walk_;
  int32_t row_offset_;  // from an output row to the last input row that its taps meet
  // Of grad_output: the thread's place in a piece, and the channels from its first on.
  uint32_t thread_to_;
  int32_t channels_;
  const T* grad_output_;
  const T* input_;
  int32_t grad_output_left_;  // pixels to the row's end, or less than none
  bool input_exists_;         // a granule
  // Of the piece that is brought: the thread's place, the next copy's source, and the channels.
  uint32_t to_;
  const T* from_;
  int32_t channels_left_;
};

}  // namespace haloconv::windows_wgrad
