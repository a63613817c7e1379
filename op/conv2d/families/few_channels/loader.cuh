// The load warps of float32: they copy source pixels to the ring as they are. The math warps round
// them when they make register operands of them.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"
#include "conv2d/families/few_channels/sweep.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::few_channels {

// A thread copies the same columns of all channels, or of every other channel. Columns outside the
// source's row are not read.
template <int kVector>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Arguments& args, const SharedMemory& shared,
                                    int32_t thread)
      : args_(args),
        shared_(shared),
        thread_(thread),
        first_channel_(thread * kVector / kWindow),
        column_(thread * kVector % kWindow),
        to_(shared_address(shared.ring()) + (first_channel_ * kPitch + column_) * 4),
        tail_to_(shared_address(shared.ring()) + (thread * kPitch + kWindow) * 4) {}

  __device__ __forceinline__ void run() {
    for_each_segment(args_, [&](int32_t band, const Segment& segment) {
      const int32_t window_column = args_.source_column(band);
      const float* const image =
          static_cast<const float*>(args_.source) + segment.image * args_.source_n + window_column;
      const int32_t lines = args_.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        const int32_t row = args_.source_row(segment, line);
        copy_row(image + row * args_.source_h, segment.image, row, window_column);
      }
    });
  }

 private:
  static constexpr int kCopied = kVector * kLoadThreads;  // columns, of all channels
  static constexpr int kChannels = kCopied > kWindow ? kCopied / kWindow : 1;
  static constexpr int kPieces = kCopied < kWindow ? kWindow / kCopied : 1;
  // Rows of odd channels may begin at another shift than those of even ones.
  static_assert(kVector == 1 || (kVector == 4 && kChannels == 2));

  // How many of kFloats columns from a window's pixel on are the source's; none if the first is
  // before it.
  template <int kFloats>
  __device__ __forceinline__ int32_t count_inside(int32_t pixel, int32_t row,
                                                  int32_t window_column) const {
    const int32_t x = window_column + pixel;
    const bool begins = row >= 0 && row < args_.source_height && pixel < args_.band_columns &&
                        x >= 0 && x < args_.source_width;
    return begins ? min(args_.source_width - x, kFloats) : 0;
  }

  __device__ __forceinline__ void copy_row(const float* row_from, int32_t image, int32_t row,
                                           int32_t window_column) {
    const int32_t pixel = column_ - args_.shift(image, first_channel_, row, window_column);
    const float* from = row_from + first_channel_ * args_.source_c + pixel;
    int32_t inside[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      inside[i] = count_inside<kVector>(pixel + i * kCopied, row, window_column);
    }
    // Shifted, four columns may begin two before the source's first.
    const bool is_halved = kVector == 4 && window_column + pixel == -2;
    const int32_t later_inside = count_inside<2>(pixel + 2, row, window_column);
    // Shifted, a row of the window takes more than a copy of each thread: two columns of one
    // channel.
    const int32_t tail_pixel = kWindow - args_.shift(image, thread_, row, window_column);
    const bool has_tail =
        kVector == 4 && thread_ < kChunk<float> && tail_pixel < args_.band_columns;
    const int32_t tail_inside = count_inside<2>(tail_pixel, row, window_column);
    const float* tail_from = row_from + thread_ * args_.source_c + tail_pixel;
    int32_t channels = args_.channels;  // left to copy
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      const uint32_t to = to_ + ring_.stage * kStageBytes;
      // Whether a channel exists costs instructions, which all chunks but the last need not spend.
      const auto copy = [&](auto has_channel) {
        if (is_halved) {
          copy_halved(to, from, later_inside, has_channel);
        } else {
          copy_pieces(to, from, inside, has_channel);
        }
      };
      if (channels >= kChunk<float>) {
        copy([](int) { return true; });
      } else {
        copy([&](int i) { return first_channel_ + i * kChannels < channels; });
      }
      from += kChunk<float> * args_.source_c;
      if (has_tail) {
        copy_async_first<2>(tail_to_ + ring_.stage * kStageBytes, tail_from,
                            thread_ < channels ? tail_inside : 0);
      }
      tail_from += kChunk<float> * args_.source_c;
      channels -= kChunk<float>;
      // The barrier counts the copies' end.
      cuda::ptx::cp_async_mbarrier_arrive_noinc(shared_.full(ring_.stage));
      ring_.advance(args_.stages);
    }
  }

  // This thread's pieces of a chunk's rows.
  template <class HasChannel>
  __device__ __forceinline__ void copy_pieces(uint32_t to, const float* from,
                                              const int32_t (&inside)[kPieces],
                                              HasChannel has_channel) const {
#pragma unroll
    for (int i = 0; i < kChunk<float> / kChannels; ++i) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        copy_async_first<kVector>(to + (i * kChannels * kPitch + j * kCopied) * 4,
                                  from + j * kCopied, has_channel(i) ? inside[j] : 0);
      }
      from += kChannels * args_.source_c;
    }
  }

  // The same where the first two columns lie before the source's.
  template <class HasChannel>
  __device__ __forceinline__ void copy_halved(uint32_t to, const float* from, int32_t later_inside,
                                              HasChannel has_channel) const {
#pragma unroll
    for (int i = 0; i < kChunk<float> / kChannels; ++i) {
      const uint32_t at = to + i * kChannels * kPitch * 4;
      copy_async<2>(at, from, false);
      copy_async_first<2>(at + 8, from + 2, has_channel(i) ? later_inside : 0);
      from += kChannels * args_.source_c;
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_, first_channel_, column_;
  const uint32_t to_, tail_to_;
  RingPosition ring_;
};

}  // namespace haloconv::few_channels
