// Brings what a step adds to shared memory, by threads that do not multiply.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/copy_async_or_zeros.cuh"
#include "cuda/copy_granule.cuh"

namespace haloconv::windows_wgrad {

// A thread copies from one place of a row of grad_output, of every so many'th channel, and
// granules of the input in turn. Of what is outside of a tensor it writes zeros.
template <class T, Tile kTile>
class RowLoader {
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));
  static constexpr int32_t kPixels = piece_pixels(kElementBytes);
  static constexpr int kLoaders = kTile.copy_threads();

 public:
  __device__ __forceinline__ RowLoader(const Arguments& args, const BlockPosition& at)
      : args_(args), at_(at), walk_(args, at.split), thread_(copy_thread<kTile>()) {
    row_offset_ = at.last_tap_row(args, kTile) * args.geometry.dilation_h - args.geometry.pad_top;
    first_channel_ = thread_ / args.input_granules;
    first_granule_ = thread_ - first_channel_ * args.input_granules;
    channel_step_ = kLoaders / args.input_granules;
    granule_step_ = kLoaders - channel_step_ * args.input_granules;
    aim();
  }

  __device__ __forceinline__ bool has_ended() const { return walk_.has_ended(); }
  __device__ __forceinline__ bool multiplies() const { return walk_.multiplies(); }

  __device__ __forceinline__ void copy_piece(uint32_t to, int32_t piece) const {
    with_granule(args_.grad_output_granule,
                 [&]<int kBytes>() { copy_granules<kBytes>(to, piece); });
  }

  __device__ __forceinline__ void copy_input(uint32_t row) const {
    with_granule(args_.input_granule, [&]<int kBytes>() { copy_input_row<kBytes>(row); });
  }

  __device__ __forceinline__ void next() {
    if (walk_.next(args_)) aim();
  }

 private:
  // At the walk's band.
  __device__ __forceinline__ void aim() {
    const Wgrad& g = args_.geometry;
    const int32_t image = walk_.image(args_);
    const int32_t column = walk_.column(args_, args_.pieces * kPixels);
    const int32_t granules = kPieceBytes / args_.grad_output_granule;
    const int32_t channel = thread_ / granules;
    grad_output_x_ =
        column + (thread_ - channel * granules) * (args_.grad_output_granule / kElementBytes);
    grad_output_ = static_cast<const T*>(args_.grad_output) +
                   (int64_t{at_.group} * g.rows + at_.row + channel) * g.output.c +
                   image * g.output.n + grad_output_x_;
    input_x_ = column - g.pad_left - args_.left_columns +
               first_granule_ * (args_.input_granule / kElementBytes);
    input_ = static_cast<const T*>(args_.input) +
             (int64_t{at_.group} * g.channels + at_.chunk * args_.chunk_channels + first_channel_) *
                 g.input.c +
             image * g.input.n + input_x_;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_granules(uint32_t to, int32_t piece) const {
    constexpr int kGranules = kPieceBytes / kBytes, kStep = kLoaders / kGranules;
    constexpr int kCopies = kTile.rows / kStep, kGranulePixels = kBytes / kElementBytes;
    const Wgrad& g = args_.geometry;
    const int32_t channel = thread_ / kGranules;
    const int32_t right = piece * kPixels - row_shift(args_, walk_.y);
    const int32_t x = grad_output_x_ + right;
    const T* from = grad_output_ + walk_.y * g.output.h + right;
    const int64_t from_step = kStep * g.output.c;
    const int32_t byte = thread_ % kGranules * kBytes;
    const int32_t channels = g.rows - at_.row - channel;
    if (kBytes == 4 || x + kGranulePixels <= 0 || x >= g.q.divisor ||
        (x >= 0 && x + kGranulePixels <= g.q.divisor)) {
      const int32_t left = x >= 0 && x < g.q.divisor ? channels : 0;
#pragma unroll 8
      for (int i = 0; i < kCopies; ++i) {
        copy_async_or_zeros<kBytes>(to + grad_output_place(kTile, channel + i * kStep, byte), from,
                                    i * kStep < left);
        from += from_step;
      }
    } else {
      // The row begins or ends within the granule.
      constexpr int kWords = kBytes / 4, kWordPixels = 4 / kElementBytes;
      int32_t left[kWords];
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        const int32_t pixel = x + word * kWordPixels;
        left[word] = pixel >= 0 && pixel < g.q.divisor ? channels : 0;
      }
#pragma unroll 4
      for (int i = 0; i < kCopies; ++i) {
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
          copy_async_or_zeros<4>(
              to + grad_output_place(kTile, channel + i * kStep, byte) + word * 4,
              from + word * kWordPixels, i * kStep < left[word]);
        }
        from += from_step;
      }
    }
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_input_row(uint32_t row) const {
    constexpr int kGranulePixels = kBytes / kElementBytes;
    const Wgrad& g = args_.geometry;
    const int32_t granules = args_.input_granules;
    const int32_t y = walk_.y + row_offset_;
    const bool exists = static_cast<uint32_t>(y) < static_cast<uint32_t>(g.h);
    const int32_t channels = exists ? g.channels - at_.chunk * args_.chunk_channels : 0;
    int32_t channel = first_channel_, x = input_x_;
    const int32_t end_x = input_x_ + (granules - first_granule_) * kGranulePixels;
    const T* from = input_ + y * g.input.h;
    uint32_t to = row + first_channel_ * args_.line + first_granule_ * kBytes;
    const int32_t x_step = granule_step_ * kGranulePixels, x_wrap = granules * kGranulePixels;
    const int64_t from_step = channel_step_ * g.input.c + x_step;
    const int64_t from_wrap = g.input.c - x_wrap;
    const int32_t to_step = channel_step_ * args_.line + granule_step_ * kBytes;
    const int32_t to_wrap = args_.line - granules * kBytes;
#pragma unroll 1
    while (channel < args_.chunk_channels) {
      // Both are asked without a branch.
      copy_async_or_zeros<kBytes>(
          to, from, (channel < channels) & (static_cast<uint32_t>(x) < static_cast<uint32_t>(g.w)));
      channel += channel_step_;
      x += x_step;
      from += from_step;
      to += to_step;
      if (x >= end_x) {
        ++channel;
        x -= x_wrap;
        from += from_wrap;
        to += to_wrap;
      }
    }
  }

  const Arguments& args_;
  const BlockPosition& at_;
  Walk walk_;
  int32_t thread_;
  int32_t row_offset_;  // from an output row to the last input row that its taps meet
  // Of a window's granules, channel by channel: the thread's first, and how far its next one is.
  int32_t first_channel_, first_granule_, channel_step_, granule_step_;
  // Of the band: the thread's first place of both tensors, and its column.
  const T* grad_output_;
  const T* input_;
  int32_t grad_output_x_, input_x_;
};

}  // namespace haloconv::windows_wgrad
