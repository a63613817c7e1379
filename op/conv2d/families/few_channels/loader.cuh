// The load warps copy source pixels to the ring as they are. The math warps round float32 when they
// load it as register operands.
#pragma once

#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/few_channels/row_copies.cuh"
#include "conv2d/families/few_channels/row_copies_of_16_bits.cuh"
#include "conv2d/families/few_channels/shared_memory.cuh"
#include "conv2d/families/few_channels/sweep.cuh"
#include "cuda/copy_arrival.cuh"
#include "cuda/copy_async.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::few_channels {

// A thread copies the same columns of some of the channels. kVector: columns of float32 that are
// copied at once.
template <class T, int kVector>
class Loader {
 public:
  using Copies =
      std::conditional_t<std::is_same_v<T, float>, RowCopies<kVector>, RowCopiesOf16Bits<T>>;

  __device__ __forceinline__ Loader(const Arguments& args, const SharedMemory& shared,
                                    int32_t thread)
      : args_(args),
        shared_(shared),
        thread_(thread),
        first_channel_(thread * Copies::kColumns / kWindow),
        column_(thread * Copies::kColumns % kWindow),
        to_(shared_address(shared.ring()) + (first_channel_ * kPitch + column_) * kBytes),
        tail_to_(shared_address(shared.ring()) + (thread * kPitch + kWindow) * kBytes) {}

  __device__ __forceinline__ void run() {
    for_each_segment(args_, [&](int32_t band, const Segment& segment) {
      const int32_t window_column = args_.source_column(band);
      const T* const image =
          static_cast<const T*>(args_.source) + segment.image * args_.source_n + window_column;
      const int32_t lines = args_.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        const int32_t row = args_.source_row(segment, line);
        copy_row(image + row * args_.source_h, {segment.image, row, window_column});
      }
    });
  }

 private:
  static constexpr int kBytes = sizeof(T);

  __device__ __forceinline__ void copy_row(const T* row_from, const SourceRow& row) {
    Copies copies(args_, row_from, row, first_channel_, column_);
    // If it is shifted, a row of the window takes one copy more than the threads make.
    constexpr int kTail = Copies::kTail;
    const int32_t tail_pixel = kWindow - row.shift(args_, thread_);
    const bool has_tail = thread_ < kChunk<T> && tail_pixel < args_.band_columns;
    const int32_t tail_inside = Copies::template count_inside<kTail>(args_, row, tail_pixel);
    const T* tail_from = row_from + thread_ * args_.source_c + tail_pixel;
    int32_t channels = args_.channels;  // left to copy
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      const uint32_t to = to_ + ring_.stage * kStageBytes;
      // Asking whether a channel exists costs instructions, which only the last chunk needs.
      if (channels >= kChunk<T>) {
        copies.copy(args_, to, [](int) { return true; });
      } else {
        copies.copy(args_, to,
                    [&](int i) { return first_channel_ + i * Copies::kChannels < channels; });
      }
      copies.advance(args_);
      if constexpr (kTail > 0) {
        if (has_tail) {
          copy_async_bytes<kTail * kBytes>(tail_to_ + ring_.stage * kStageBytes, tail_from,
                                           thread_ < channels ? tail_inside * kBytes : 0);
        }
      }
      tail_from += kChunk<T> * args_.source_c;
      channels -= kChunk<T>;
      // The barrier counts this arrival when the copies have ended.
      mbarrier_arrive_after_copies(shared_.full(ring_.stage));
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
