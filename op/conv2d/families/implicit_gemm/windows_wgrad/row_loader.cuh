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
    column_ = walk_.column(args_, args_.pieces * kPixels);
    grad_output_ = static_cast<const T*>(args_.grad_output) +
                   (int64_t{at_.group} * g.rows + at_.row) * g.output.c + image * g.output.n;
    input_ = static_cast<const T*>(args_.input) +
             (int64_t{at_.group} * g.channels + at_.chunk * args_.chunk_channels) * g.input.c +
             image * g.input.n;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_granules(uint32_t to, int32_t piece) const {
    constexpr int kGranules = kPieceBytes / kBytes, kStep = kLoaders / kGranules;
    constexpr int kCopies = kTile.rows / kStep, kGranulePixels = kBytes / kElementBytes;
    const Wgrad& g = args_.geometry;
    const int32_t channel = thread_ / kGranules, granule = thread_ % kGranules;
    const int32_t x =
        column_ - row_shift(args_, walk_.y) + piece * kPixels + granule * kGranulePixels;
    const T* from = grad_output_ + channel * g.output.c + walk_.y * g.output.h + x;
    const int64_t from_step = kStep * g.output.c;
    to += channel * grad_output_line(kTile) + granule * kBytes;
    const int32_t channels = g.rows - at_.row - channel;
    if (kBytes == 4 || x + kGranulePixels <= 0 || x >= g.q.divisor ||
        (x >= 0 && x + kGranulePixels <= g.q.divisor)) {
      const int32_t left = x >= 0 && x < g.q.divisor ? channels : 0;
#pragma unroll 8
      for (int i = 0; i < kCopies; ++i) {
        copy_async_or_zeros<kBytes>(to + i * kStep * grad_output_line(kTile), from,
                                    i * kStep < left);
        from += from_step;
      }
    } else {
      // The row begins or ends within the granule.
      constexpr int kWordPixels = 4 / kElementBytes;
#pragma unroll 1
      for (int i = 0; i < kCopies; ++i) {
#pragma unroll
        for (int word = 0; word < kBytes / 4; ++word) {
          const int32_t pixel = x + word * kWordPixels;
          const bool exists = i * kStep < channels && pixel >= 0 && pixel < g.q.divisor;
          copy_async_or_zeros<4>(to + i * kStep * grad_output_line(kTile) + word * 4,
                                 from + word * kWordPixels, exists);
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
    int32_t channel = thread_ / granules, granule = thread_ - channel * granules;
    const int32_t channel_step = kLoaders / granules,
                  granule_step = kLoaders - channel_step * granules;
    const int32_t first_x = column_ - g.pad_left - args_.left_columns;
    const int32_t end_x = first_x + granules * kGranulePixels;
    int32_t x = first_x + granule * kGranulePixels;
    const T* from = input_ + channel * g.input.c + y * g.input.h + x;
    uint32_t to = row + channel * args_.line + granule * kBytes;
    const int64_t from_step = channel_step * g.input.c + granule_step * kGranulePixels;
    const int64_t from_wrap = g.input.c - granules * kGranulePixels;
    const int32_t to_step = channel_step * args_.line + granule_step * kBytes;
    const int32_t to_wrap = args_.line - granules * kBytes;
#pragma unroll 1
    while (channel < args_.chunk_channels) {
      copy_async_or_zeros<kBytes>(to, from, channel < channels && x >= 0 && x < g.w);
      channel += channel_step;
      x += granule_step * kGranulePixels;
      from += from_step;
      to += to_step;
      if (x >= end_x) {
        ++channel;
        x -= granules * kGranulePixels;
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
  // Of the band: its first column, and the first channel's plane of both tensors.
  int32_t column_;
  const T* grad_output_;
  const T* input_;
};

}  // namespace haloconv::windows_wgrad
