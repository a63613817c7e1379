// A block's rows of the source, from global memory to planes of channels in shared memory.
//
// A thread brings pairs of neighbouring pixels, 8 channels each, to a place of its own; when they
// have come, it exchanges the halves of their words, so that each has both pixels of one channel,
// and stores these where the channel's plane has the pair. So no thread waits for another's copies.
//
// What a warp stores at once meets each bank of shared memory once, since a chunk's place within
// 128 bytes depends on the channel.
//
// Planes get finite values alone (bands_nonfinite.cuh).
#pragma once

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/depthwise/band_words.cuh"
#include "conv2d/families/depthwise/bands_arguments.cuh"
#include "conv2d/families/depthwise/bands_nonfinite.cuh"
#include "cuda/copy_async.cuh"

namespace haloconv::depthwise {

// A block's first channel, first segment of a row, and first strip.
struct BandsBlock {
  int32_t channel, segment, strip;

  __device__ __forceinline__ BandsBlock(const Bands& d, int32_t block) {
    const int32_t tile = d.channel_tiles.quotient(block);
    channel = (block - tile * d.channel_tiles.divisor) * kBandChannels;
    const int32_t strips = d.column_tiles.quotient(tile);
    segment = (tile - strips * d.column_tiles.divisor) * d.across;
    strip = strips * d.strips_at_once;
  }
};

// Where a chunk of a channel's plane lies, in bytes from the plane's beginning.
__device__ __forceinline__ uint32_t place_of_chunk(uint32_t chunk, uint32_t channel) {
  return (chunk ^ (channel / 8 % kBandEights * (8 / kBandEights))) * 16;
}

// The pair of pixels that a thread brings of each row, if there is one for it.
template <class T>
class BandsRows {
 public:
  using Arguments = BandsArguments<T>;

  // rows: of strips, from the first that is needed to the end. Others are zeros.
  __device__ __forceinline__ BandsRows(const Arguments& args, const BandsBlock& block,
                                       int32_t first_row, int32_t end_row, uint32_t raw) {
    const Bands& d = args.shape;
    const Strides& at = args.source_at;
    const auto thread = static_cast<int32_t>(hidden(threadIdx.x));
    const int32_t eight = thread % kBandEights, place = thread / kBandEights;
    const int32_t row = d.pairs_of_row.quotient(place), strip = block.strip + row;
    const int32_t column = (place - row * d.pairs_of_row.divisor) * 2;
    const int32_t image = d.strips_of_image.quotient(strip);
    const int32_t channel = block.channel + eight * 8;
    const int32_t x = block.segment * kSegmentOutputs + d.w.origin + column;
    is_mine_ = thread < d.pairs;
    const bool exists = is_mine_ && strip < d.strips && channel < d.channels.divisor;
    const int32_t strip_row = (strip - image * d.image_strips) * d.strip_rows + d.h.origin;
    row_ = strip_row + first_row;
    end_ = max(min(strip_row + end_row, d.h.source_size), 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      inside_[i] = exists && static_cast<uint32_t>(x + i) < static_cast<uint32_t>(d.w.source_size);
    }
    from_ = reinterpret_cast<const char*>(args.source +
                                          (image * at.n + row_ * at.h + x * at.w + channel));
    raw_ = raw + thread * 16;
    to_ = eight * 8 * kPlaneBytes + place_of_chunk(row * d.row_chunks + column / 8, eight * 8) +
          column % 8 * 2;
  }

  // Sends for the next row, which is `row`.
  __device__ __forceinline__ void send(const Arguments& args, int32_t row) {
    const bool has_row = static_cast<uint32_t>(row_) < end_;
    const uint32_t to = place_of(args, row);
    if (is_mine_) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool inside = has_row && inside_[i];
        copy_async_bytes<16>(to + i * args.half_row_bytes, from_ + i * args.source_pixel_bytes,
                             inside ? 16 : 0);
      }
    }
    ++row_;
    from_ += args.source_row_bytes;
  }

  // The next row, which has come, to the planes. If this thread's part is not finite, `nonfinite`
  // gets to know of it; `row`: which it is.
  template <class Nonfinite>
  __device__ __forceinline__ void move(const Arguments& args, uint32_t planes,
                                       const Nonfinite& nonfinite, int32_t row) {
    if (!is_mine_) return;
    const uint32_t from = place_of(args, row), to = planes + to_;
    uint32_t words[8];
    load_pair(args, from, words);
    store_pair(to, words);
    uint32_t probe[2] = {};  // two, since each product waits for the one before
#pragma unroll
    for (int i = 0; i < 8; ++i) probe[i % 2] = times_zero_plus<T>(words[i], probe[i % 2]);
    if ((probe[0] | probe[1]) == 0) [[likely]]
      return;
    load_pair(args, from, words);  // once more, so that no register keeps them until here
    nonfinite.template put<T>(row, words);
#pragma unroll
    for (uint32_t& word : words) word = finite_words<T>(word);
    store_pair(to, words);
  }

 private:
  // Where a row comes to.
  __device__ __forceinline__ uint32_t place_of(const Arguments& args, int32_t row) const {
    return raw_ + (row & (kRawRows - 1)) * args.row_bytes;
  }

  // Both pixels of each of 8 channels, from where they came to and to their planes.
  static __device__ __forceinline__ void load_pair(const Arguments& args, uint32_t from,
                                                   uint32_t (&words)[8]) {
    uint32_t pixels[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_shared_bits(from + i * args.half_row_bytes, pixels[i]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[2 * i] = __byte_perm(pixels[0][i], pixels[1][i], 0x5410);
      words[2 * i + 1] = __byte_perm(pixels[0][i], pixels[1][i], 0x7632);
    }
  }
  static __device__ __forceinline__ void store_pair(uint32_t to, const uint32_t (&words)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) store_shared_bits(to + i * kPlaneBytes, words[i]);
  }

  const char* from_;  // the first pixel's channels, in the next row to be sent for
  int32_t row_;       // that row
  uint32_t end_;      // of rows
  bool inside_[2];    // whether the pixels are beside no row's end
  bool is_mine_;
  uint32_t raw_, to_;  // in shared memory: in the ring, in the planes
};

}  // namespace haloconv::depthwise
