// The load warps: they bring windows of the source from global memory to the ring, rounded and
// transposed.
//
// A thread loads all channels of a chunk for one pixel, or for two neighbours if rows are aligned.
// Neighbouring threads read neighbouring pixels of a row, and each stores two 16-byte cells for a
// pixel, one for each half of the chunk's channels. Which pixels of a window a thread brings, and
// where they lie, is computed once and kept in a table in shared memory. Loads run kInFlight
// entries ahead of the stores, across tiles too: that hides the memory's latency if tiles have few
// chunks.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/shared_memory.cuh"
#include "conv2d/families/halo/tile_order.cuh"
#include "cuda/mbarrier.cuh"
#include "cuda/named_barrier.cuh"

namespace haloconv::halo {

// kVector: pixels of an entry, 1 or 2. kStreams: loads do not fill the L1 cache. kApart: the cells
// of a pair of pixels may be apart. Position: where a tile lies. Taker: which tiles the block
// takes.
template <class T, int kVector, int kInFlight, bool kStreams, bool kApart,
          class Position = TilePosition, class Taker = TileTaker>
class Producer {
  static constexpr int kChunk = 2 * Element<T>::kPerCell;

 public:
  __device__ Producer(const Arguments& args, const SharedMemory& shared, int32_t thread,
                      int32_t split)
      : args_(args),
        shared_(shared),
        thread_(thread),
        first_channel_(split * args.split_chunks * kChunk),
        chunks_(min(args.split_chunks, args.chunks - split * args.split_chunks)),
        queue_(shared),
        taker_(args, shared, max(1, (kInFlight - 1 - args.stages) / chunks_ + 1)),
        entries_of_warp_(max(1, (args.entries * (kVector == 1 && args.even ? 2 : 1) -
                                 __shfl_sync(~0u, thread, 0) + kLoadThreads - 1) /
                                    kLoadThreads)) {}

  __device__ void run() {
    if (thread_ == 0) taker_.put_first();
    for (int32_t first = 0; first < args_.entries; first += kLoadThreads) {
      shared_.table()[first + thread_] = window_entry(args_, first + thread_);
    }
    named_barrier_sync<NamedBarrier::kTable, kLoadThreads>();
    move_pixels();
  }

 private:
  // What an entry brings, on its way.
  struct Pixels {
    typename Element<T>::template Pixels<kVector> channels[kChunk];
    uint16_t cell;
  };

  __device__ __forceinline__ void move_pixels() {
    Pixels pixels[kInFlight];
#pragma unroll
    for (Pixels& next : pixels) load(next);
    for (;;) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (entries_stored_ == entries_loaded_) return;
        store(pixels[i]);
        load(pixels[i]);
      }
    }
  }

  // Makes ready to load the next tile's windows; after the last tile no channels are left.
  __device__ __forceinline__ void begin_tile() {
    if (tile_ >= args_.tiles) return;
    tile_ = queue_.next();
    if (tile_ >= args_.tiles) return;
    if (thread_ == 0) taker_.put_next();
    const Position tile(args_, tile_);
    row_ = tile.h * args_.h.source_step + args_.h.origin;
    column_ = tile.w * args_.w.source_step + args_.w.origin;
    images_ = args_.images - tile.image;
    inside_ = row_ >= 0 && row_ + args_.h.last < static_cast<int32_t>(args_.h.source_size) &&
              column_ >= 0 && column_ + args_.w.last < static_cast<int32_t>(args_.w.source_size) &&
              images_ >= args_.tile_images;
    source_ = static_cast<const T*>(args_.source) + tile.image * args_.source_n +
              (int64_t{tile.group} * args_.channels + first_channel_) * args_.source_c +
              row_ * int64_t{args_.source_h} + column_;
    channels_ = min(args_.channels - first_channel_, chunks_ * kChunk);
  }

  // The next entry's channels; nothing once all are under way.
  __device__ __forceinline__ void load(Pixels& pixels) {
    if (channels_ <= 0) begin_tile();
    const WindowEntry entry = next_entry();
    pixels.cell = entry.cell;
    const T* at = source_ + entry.source;
    if (inside_ && channels_ >= kChunk) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i, at += args_.source_c) load(at, pixels.channels[i], true);
    } else {
      // As unsigned numbers, rows and columns before the first are beyond the last.
      const bool inside =
          static_cast<uint32_t>(row_ + entry.row) < static_cast<uint32_t>(args_.h.source_size) &&
          static_cast<uint32_t>(column_ + entry.column) <
              static_cast<uint32_t>(args_.w.source_size) &&
          entry.image < images_ && entry.cell != kNoCell;
      const int32_t channels = inside ? channels_ : 0;
#pragma unroll
      for (int i = 0; i < kChunk; ++i, at += args_.source_c) {
        load(at, pixels.channels[i], i < channels);
      }
    }
    if (channels_ > 0) ++entries_loaded_;
    if (++load_entry_ == entries_of_warp_) {
      load_entry_ = 0;
      source_ += kChunk * args_.source_c;
      channels_ -= kChunk;
    }
  }

  static __device__ __forceinline__ void load(const T* at,
                                              typename Element<T>::template Pixels<kVector>& pixels,
                                              bool inside) {
    Element<T>::template load<kStreams, kVector>(at, pixels, inside);
  }

  __device__ __forceinline__ WindowEntry next_entry() const {
    const int32_t i = load_entry_ * kLoadThreads + thread_;
    if (kVector == 2 || !args_.even) return shared_.table()[i];
    WindowEntry entry = shared_.table()[i / 2];  // of a pair
    if (i % 2 == 1 && entry.cell != kNoCell) {
      ++entry.source;
      ++entry.column;
      entry.cell += pair_cells();
    }
    return entry;
  }

  __device__ __forceinline__ void store(const Pixels& pixels) {
    if (store_entry_ == 0) mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    if (pixels.cell != kNoCell) {
      unsigned char* const cell = shared_.stage<Element<T>::kTerms>(ring_.stage) + pixels.cell * 16;
      store_half<0>(pixels, cell);
      store_half<kChunk / 2>(pixels, cell + args_.window_cells * 16);
    }
    ++entries_stored_;
    if (++store_entry_ == entries_of_warp_) {
      store_entry_ = 0;
      // The tensor cores read what ordinary stores wrote.
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
      cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
      ring_.advance(args_.stages);
    }
  }

  // Of a pair of neighbouring cells, every other group of four threads stores the second cell
  // first. So eight neighbouring threads write to all banks at a time.
  template <int kFirst>
  __device__ __forceinline__ void store_half(const Pixels& pixels, unsigned char* at) const {
    const bool swaps = kVector == 2 && pair_cells() == 1 && (thread_ & 4) != 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      uint32_t words[4][Element<T>::kTerms];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        Element<T>::template words<kVector>(pixels.channels + kFirst, j, i, swaps, words[j]);
      }
      uint4* const cell =
          reinterpret_cast<uint4*>(at) + (swaps ? kVector - 1 - i : i) * pair_cells();
#pragma unroll
      for (int term = 0; term < Element<T>::kTerms; ++term) {
        cell[2 * term * args_.window_cells] =
            make_uint4(words[0][term], words[1][term], words[2][term], words[3][term]);
      }
    }
  }

  __device__ __forceinline__ int32_t pair_cells() const { return kApart ? args_.pair_cells : 1; }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t thread_;
  const int32_t first_channel_, chunks_;  // of this split
  TileQueue queue_;
  // Used by the first thread. It is ahead by as many tiles as one warp must know of when another
  // begins one. While a warp waits for a number, it holds the windows that it has loaded but not
  // yet stored, at most kInFlight. None of these may be a window that another warp needs in order
  // to go on, which is one older, by the number of stages, than the window that the other stores
  // next.
  Taker taker_;
  uint32_t tile_ = 0;
  const int32_t entries_of_warp_;  // 32 at a time; at least one, which need not be in the window
  RingPosition ring_;
  // Of the window to load: its first pixel of the chunk, the images and channels from there on, and
  // whether all of it lies in the source.
  const T* source_ = nullptr;
  int32_t row_ = 0, column_ = 0, images_ = 0, channels_ = 0;
  bool inside_ = false;
  int32_t load_entry_ = 0, store_entry_ = 0;          // of the window
  uint32_t entries_loaded_ = 0, entries_stored_ = 0;  // in all, modulo 2^32
};

}  // namespace haloconv::halo
