// The load warps of 16-bit types: they copy source pixels to the ring as they are, 16 bytes at a
// time wherever rows begin at an even element.
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"
#include "conv2d/families/few_channels/sweep.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::few_channels {

// A thread copies the same eight columns of every fourth channel. Columns after the source's row
// become zeros. Before it lie at most six, in the same 16 bytes as the row's first: they are read,
// and are none of the window's pixels.
template <class T>
class LoaderOf16Bits {
 public:
  __device__ __forceinline__ LoaderOf16Bits(const Arguments& args, const SharedMemory& shared,
                                            int32_t thread)
      : args_(args),
        shared_(shared),
        thread_(thread),
        first_channel_(thread * kVector / kWindow),
        column_(thread * kVector % kWindow),
        to_(shared_address(shared.ring()) + (first_channel_ * kPitch + column_) * 2),
        tail_to_(shared_address(shared.ring()) + (thread * kPitch + kWindow) * 2) {}

  __device__ __forceinline__ void run() {
    for_each_segment(args_, [&](int32_t band, const Segment& segment) {
      const int32_t window_column = args_.source_column(band);
      const T* const image =
          static_cast<const T*>(args_.source) + segment.image * args_.source_n + window_column;
      const int32_t lines = args_.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        const int32_t row = args_.source_row(segment, line);
        copy_row(image + row * args_.source_h, segment.image, row, window_column);
      }
    });
  }

 private:
  static constexpr int kVector = 8;
  static constexpr int kChannels = kVector * kLoadThreads / kWindow;  // copied at a time
  static constexpr int kTurns = kChunk<T> / kChannels;
  static constexpr int kShifts = 8 / kChannels;  // of this thread's channels
  static_assert(kChunk<T> <= kLoadThreads);

  // How many of the columns from a window's pixel on are the source's.
  __device__ __forceinline__ int32_t count_inside(int32_t pixel, int32_t row,
                                                  int32_t window_column) const {
    const int32_t x = window_column + pixel;
    const bool begins = row >= 0 && row < args_.source_height && pixel < args_.band_columns &&
                        x < args_.source_width;
    return begins ? min(args_.source_width - x, kVector) : 0;
  }

  __device__ __forceinline__ void copy_row(const T* row_from, int32_t image, int32_t row,
                                           int32_t window_column) {
    const T* from[kShifts];
    int32_t bytes[kShifts];
#pragma unroll
    for (int i = 0; i < kShifts; ++i) {
      const int32_t channel = first_channel_ + i * kChannels;
      const int32_t pixel = column_ - args_.shift(image, channel, row, window_column);
      from[i] = row_from + channel * args_.source_c + pixel;
      bytes[i] = 2 * count_inside(pixel, row, window_column);
    }
    // Shifted, a row of the window takes a copy more than the threads make.
    const int32_t tail_pixel = kWindow - args_.shift(image, thread_, row, window_column);
    const bool has_tail = thread_ < kChunk<T> && tail_pixel < args_.band_columns;
    const int32_t tail_bytes = 2 * count_inside(tail_pixel, row, window_column);
    const T* tail_from = row_from + thread_ * args_.source_c + tail_pixel;
    int32_t channels = args_.channels;  // left to copy
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      const uint32_t to = to_ + ring_.stage * kStageBytes;
      // Whether a channel exists costs instructions, which all chunks but the last need not spend.
      const auto copy = [&](auto has_channel) {
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          copy_async_bytes<2 * kVector>(to + i * kChannels * kPitch * 2,
                                        from[i % kShifts] + i / kShifts * 8 * args_.source_c,
                                        has_channel(i) ? bytes[i % kShifts] : 0);
        }
      };
      if (channels >= kChunk<T>) {
        copy([](int) { return true; });
      } else {
        copy([&](int i) { return first_channel_ + i * kChannels < channels; });
      }
#pragma unroll
      for (const T*& at : from) at += kChunk<T> * args_.source_c;
      if (has_tail) {
        copy_async_bytes<2 * kVector>(tail_to_ + ring_.stage * kStageBytes, tail_from,
                                      thread_ < channels ? tail_bytes : 0);
      }
      tail_from += kChunk<T> * args_.source_c;
      channels -= kChunk<T>;
      // The barrier counts the copies' end.
      cuda::ptx::cp_async_mbarrier_arrive_noinc(shared_.full(ring_.stage));
      ring_.advance(args_.stages);
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_, first_channel_, column_;
  const uint32_t to_, tail_to_;
  RingPosition ring_;
};

}  // namespace haloconv::few_channels
