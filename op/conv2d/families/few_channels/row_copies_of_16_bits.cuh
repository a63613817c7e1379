// A load thread's copies of a row of a 16-bit type, 16 bytes at a time, at whatever even element
// the row begins: the same eight columns of every fourth channel. Columns after the source's row
// become zeros. At most six columns before it, in the same 16 bytes as the row's first, are read,
// but they are none of the window's pixels.
#pragma once

#include "conv2d/families/few_channels/arguments.h"
#include "conv2d/families/few_channels/source_row.cuh"
#include "cuda/copy_async.cuh"

namespace haloconv::few_channels {

template <class T>
class RowCopiesOf16Bits {
 public:
  static constexpr int kColumns = 8;
  static constexpr int kChannels = kColumns * kLoadThreads / kWindow;  // copied at a time
  static constexpr int kTail = kColumns;
  static_assert(kChunk<T> <= kLoadThreads);

  __device__ __forceinline__ RowCopiesOf16Bits(const Arguments& args, const T* row_from,
                                               const SourceRow& row, int32_t first_channel,
                                               int32_t column) {
#pragma unroll
    for (int i = 0; i < kShifts; ++i) {
      const int32_t channel = first_channel + i * kChannels;
      const int32_t pixel = column - row.shift(args, channel);
      from_[i] = row_from + channel * args.source_c + pixel;
      bytes_[i] = 2 * count_inside<kColumns>(args, row, pixel);
    }
  }

  template <int kCount>
  static __device__ __forceinline__ int32_t count_inside(const Arguments& args,
                                                         const SourceRow& row, int32_t pixel) {
    return row.count_inside(args, pixel, kCount);
  }

  // A chunk of channels. has_channel(i): whether the i'th of this thread's exists.
  template <class HasChannel>
  __device__ __forceinline__ void copy(const Arguments& args, uint32_t to,
                                       HasChannel has_channel) const {
#pragma unroll
    for (int i = 0; i < kChunk<T> / kChannels; ++i) {
      copy_async_bytes<2 * kColumns>(to + i * kChannels * kPitch * 2,
                                     from_[i % kShifts] + i / kShifts * 8 * args.source_c,
                                     has_channel(i) ? bytes_[i % kShifts] : 0);
    }
  }
  __device__ __forceinline__ void advance(const Arguments& args) {
#pragma unroll
    for (const T*& at : from_) at += kChunk<T> * args.source_c;
  }

 private:
  static constexpr int kShifts = 8 / kChannels;  // of this thread's channels

  const T* from_[kShifts];
  int32_t bytes_[kShifts];
};

}  // namespace haloconv::few_channels
