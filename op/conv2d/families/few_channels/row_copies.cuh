// A load thread's copies of a float32 row: the same columns of all channels, or of every other
// channel. Columns outside the source's row are not read.
#pragma once

#include "conv2d/families/few_channels/arguments.h"
#include "conv2d/families/few_channels/source_row.cuh"
#include "cuda/copy_async.cuh"

namespace haloconv::few_channels {

template <int kVector>
class RowCopies {
 public:
  static constexpr int kColumns = kVector;                // of a thread, side by side
  static constexpr int kCopied = kVector * kLoadThreads;  // columns, of all channels
  static constexpr int kChannels = kCopied > kWindow ? kCopied / kWindow : 1;
  static constexpr int kTail = kVector == 4 ? 2 : 0;  // columns of one channel
  // Rows of odd channels may have another shift than those of even ones.
  static_assert(kVector == 1 || (kVector == 4 && kChannels == 2));

  __device__ __forceinline__ RowCopies(const Arguments& args, const float* row_from,
                                       const SourceRow& row, int32_t first_channel,
                                       int32_t column) {
    const int32_t pixel = column - row.shift(args, first_channel);
    from_ = row_from + first_channel * args.source_c + pixel;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      inside_[i] = count_inside<kVector>(args, row, pixel + i * kCopied);
    }
    // If they are shifted, four columns may begin two before the source's first.
    is_halved_ = kVector == 4 && row.column_of(pixel) == -2;
    later_inside_ = count_inside<2>(args, row, pixel + 2);
  }

  // How many of kFloats columns from a window's pixel on are the source's; none if the first is
  // before it.
  template <int kFloats>
  static __device__ __forceinline__ int32_t count_inside(const Arguments& args,
                                                         const SourceRow& row, int32_t pixel) {
    return row.column_of(pixel) >= 0 ? row.count_inside(args, pixel, kFloats) : 0;
  }

  // A chunk of channels. has_channel(i): whether the i'th of this thread's exists.
  template <class HasChannel>
  __device__ __forceinline__ void copy(const Arguments& args, uint32_t to,
                                       HasChannel has_channel) const {
    if (is_halved_) {
      copy_halved(args, to, has_channel);
    } else {
      copy_pieces(args, to, has_channel);
    }
  }
  __device__ __forceinline__ void advance(const Arguments& args) {
    from_ += kChunk<float> * args.source_c;
  }

 private:
  static constexpr int kPieces = kCopied < kWindow ? kWindow / kCopied : 1;

  // The compiler would keep the multiples of a number for the next chunk, in too many registers.
  static __device__ __forceinline__ int64_t this_chunks(int64_t step) {
    asm volatile("" : "+l"(step));
    return step;
  }

  template <class HasChannel>
  __device__ __forceinline__ void copy_pieces(const Arguments& args, uint32_t to,
                                              HasChannel has_channel) const {
    const float* from = from_;
    const int64_t step = this_chunks(kChannels * args.source_c);
#pragma unroll
    for (int i = 0; i < kChunk<float> / kChannels; ++i) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        copy_async_first<kVector>(to + (i * kChannels * kPitch + j * kCopied) * 4,
                                  from + j * kCopied, has_channel(i) ? inside_[j] : 0);
      }
      from += step;
    }
  }

  // The same if the first two columns are before the source's first.
  template <class HasChannel>
  __device__ __forceinline__ void copy_halved(const Arguments& args, uint32_t to,
                                              HasChannel has_channel) const {
    const float* from = from_;
    const int64_t step = this_chunks(kChannels * args.source_c);
#pragma unroll
    for (int i = 0; i < kChunk<float> / kChannels; ++i) {
      const uint32_t at = to + i * kChannels * kPitch * 4;
      copy_async<2>(at, from, false);
      copy_async_first<2>(at + 8, from + 2, has_channel(i) ? later_inside_ : 0);
      from += step;
    }
  }

  const float* from_;
  int32_t inside_[kPieces], later_inside_;
  bool is_halved_;
};

}  // namespace haloconv::few_channels
