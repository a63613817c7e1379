// The load warps: source pixels go to the ring as they lie. What is rounded is the register operand
// that the math warps make of them.
#pragma once

#include "conv2d/sm90/copy_async.cuh"
#include "conv2d/sm90/mbarrier.cuh"
#include "conv2d/sm90/scatter/shared_memory.cuh"
#include "conv2d/sm90/scatter/sweep.cuh"
#include "conv2d/sm90/vector_access.cuh"

namespace haloconv::sm90::scatter {

// A thread copies the same columns of all channels, or of every other one. Four of which some lie
// outside the source's row are copied one at a time, so that nothing beside the tensor is read.
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
    for_each_segment(args_, [&](int32_t strip, const Segment& segment) {
      const int32_t window_column = args_.source_column(strip);
      const float* const image = args_.source + segment.image * args_.source_n + window_column;
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
  // Columns of a thread, if they are copied one at a time, and from one to the next.
  static constexpr int kSingles = kVector == 1 ? kWindow / kCopied : kVector;
  static constexpr int kSingleStep = kVector == 1 ? kCopied : 1;
  // Rows of odd channels may begin at another shift than those of even ones.
  static_assert(kVector == 1 || kChannels == 2);

  __device__ __forceinline__ bool is_inside(int32_t pixel, int32_t row,
                                            int32_t window_column) const {
    const int32_t x = window_column + pixel;
    return row >= 0 && row < args_.source_height && pixel < args_.strip_columns && x >= 0 &&
           x < args_.source_width;
  }

  __device__ __forceinline__ void copy_row(const float* row_from, int32_t image, int32_t row,
                                           int32_t window_column) {
    const int32_t shift = args_.shift(image, first_channel_, row, window_column);
    const float* from = row_from + first_channel_ * args_.source_c + column_ - shift;
    const int32_t pixel = column_ - shift;
    const int32_t x = window_column + pixel;
    const bool is_whole = x >= 0 && x + kVector <= args_.source_width;
    const bool is_wanted = row >= 0 && row < args_.source_height && pixel < args_.strip_columns;
    const bool is_cut = is_wanted && !is_whole && x > -kVector && x < args_.source_width;
    // Of columns that are copied one at a time.
    bool inside[kSingles];
#pragma unroll
    for (int i = 0; i < kSingles; ++i) {
      inside[i] = is_inside(pixel + i * kSingleStep, row, window_column);
    }
    // Shifted, a row of the window takes more than a copy of each thread: two columns of one
    // channel.
    const int32_t tail_pixel = kWindow - args_.shift(image, thread_, row, window_column);
    const bool has_tail = kVector > 1 && thread_ < kChunk && tail_pixel < args_.strip_columns;
    const bool tail_inside[2] = {is_inside(tail_pixel, row, window_column),
                                 is_inside(tail_pixel + 1, row, window_column)};
    const float* tail_from = row_from + thread_ * args_.source_c + tail_pixel;
    int32_t channels = args_.channels;  // left to copy
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      const uint32_t to = to_ + ring_.stage * kStageBytes;
      const auto has = [&](int i) { return first_channel_ + i * kChannels < channels; };
      if (kVector == 1 || is_cut) {
        const float* row_of_channel = from;
#pragma unroll 2
        for (int i = 0; i < kChunk / kChannels; ++i) {
#pragma unroll
          for (int j = 0; j < kSingles; ++j) {
            const int32_t at = j * kSingleStep;
            copy_async<1>(to + (i * kChannels * kPitch + at) * 4, row_of_channel + at,
                          inside[j] && has(i));
          }
          row_of_channel += kChannels * args_.source_c;
        }
      } else {
        const float* row_of_channel = from;
#pragma unroll
        for (int i = 0; i < kChunk / kChannels; ++i) {
          copy_async<kVector>(to + i * kChannels * kPitch * 4, row_of_channel,
                              is_wanted && is_whole && has(i));
          row_of_channel += kChannels * args_.source_c;
        }
      }
      from += kChunk * args_.source_c;
      if (has_tail) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          copy_async<1>(tail_to_ + ring_.stage * kStageBytes + i * 4, tail_from + i,
                        tail_inside[i] && thread_ < channels);
        }
      }
      tail_from += kChunk * args_.source_c;
      channels -= kChunk;
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

}  // namespace haloconv::sm90::scatter
