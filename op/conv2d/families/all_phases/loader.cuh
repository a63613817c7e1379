// Brings the chunks of a block's tiles: the packed filter by a bulk copy, and so the window's
// pixels where they have been packed; else these come through registers, so that their channels lie
// side by side whatever their order in memory.
#pragma once

#include <cuda/ptx>

#include "conv2d/device/element.cuh"
#include "conv2d/families/all_phases/places.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/expect_bytes.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::all_phases {

// Of a thread among 128: every 128th position of each window.
template <class T, int kBlocks, int kColumns>
class Loader {
 public:
  // At a full barrier: the threads, and the copy's.
  static __device__ __forceinline__ uint32_t arrivals(const Arguments& args) {
    return args.packed_source == nullptr ? 128 + 1 : 1;
  }

  __device__ __forceinline__ Loader(const Arguments& args, const SharedMemory<kColumns>& shared,
                                    int32_t thread)
      : args_(args), shared_(shared), thread_(thread) {}

  __device__ __forceinline__ void bring(const TilePosition& tile) {
    const unsigned char* packed = static_cast<const unsigned char*>(args_.packed) +
                                  int64_t{tile.column_tile} * args_.chunks * args_.filter_bytes;
    first_source_ = first_source_of(args_, tile.column_tile);
#pragma unroll 1
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk, packed += args_.filter_bytes) {
      if (args_.packed_source != nullptr) {
        if (thread_ == 0) bring_packed(tile, chunk, packed);
      } else if (args_.reads_units) {
        bring_chunk<true>(tile, chunk, packed);
      } else {
        bring_chunk<false>(tile, chunk, packed);
      }
      ring_.advance(args_.stages);
    }
  }

 private:
  using Of = Element<T>;
  static constexpr int kPerCell = Of::kPerCell;
  // Positions that a thread has on the way at once: as many as its registers hold.
  template <bool kReadsUnits>
  static constexpr int kAtOnce = kBlocks == 2                   ? 3
                                 : kReadsUnits || kPerCell == 4 ? 2
                                                                : 1;

  // A position's channels of a chunk.
  union Units {
    uint4 units[kChunkUnits];
    typename Of::template Pixels<1> pixels[kChunkUnits][kPerCell];
    __device__ __forceinline__ Units() {}
  };

  template <bool kReadsUnits>
  __device__ __forceinline__ void bring_chunk(const TilePosition& tile, int32_t chunk,
                                              const unsigned char* packed) {
    uint64_t* const full = shared_.full(ring_.stage);
    bool has_room = false;
#pragma unroll 1
    for (int32_t first = thread_; first < args_.window; first += 128 * kAtOnce<kReadsUnits>) {
      Units units[kAtOnce<kReadsUnits>];
#pragma unroll
      for (int i = 0; i < kAtOnce<kReadsUnits>; ++i) {
        load<kReadsUnits>(tile.first + first + i * 128, chunk, first + i * 128 < args_.window,
                          units[i]);
      }
      if (!has_room) {
        mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
        has_room = true;
        if (thread_ == 0) bring_filter(packed, full);
      }
      auto* const to = reinterpret_cast<uint4*>(shared_.window(ring_.stage)) + first;
#pragma unroll
      for (int i = 0; i < kAtOnce<kReadsUnits>; ++i) {
        if (first + i * 128 >= args_.window) continue;
#pragma unroll
        for (int unit = 0; unit < kChunkUnits; ++unit) {
          to[unit * args_.window + i * 128] = operand<kReadsUnits>(units[i], unit);
        }
      }
    }
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    cuda::ptx::mbarrier_arrive(full);
  }

  __device__ __forceinline__ void bring_filter(const unsigned char* packed, uint64_t* full) const {
    wait_for_kernel_before();  // which packs the filter
    expect_bytes(full, args_.filter_bytes);
    copy(shared_.filter(ring_.stage), packed, args_.filter_bytes, full);
  }

  // Both operands by bulk copies.
  __device__ __forceinline__ void bring_packed(const TilePosition& tile, int32_t chunk,
                                               const unsigned char* packed) const {
    uint64_t* const full = shared_.full(ring_.stage);
    mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    wait_for_kernel_before();
    expect_bytes(full, args_.window_bytes + args_.filter_bytes);
    const unsigned char* from =
        static_cast<const unsigned char*>(args_.packed_source) +
        (int64_t{chunk} * kChunkUnits * args_.packed_positions + tile.first) * 16;
    unsigned char* to = shared_.window(ring_.stage);
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; ++unit) {
      copy(to, from, args_.window * 16, full);
      from += int64_t{args_.packed_positions} * 16;
      to += args_.window * 16;
    }
    copy(shared_.filter(ring_.stage), packed, args_.filter_bytes, full);
  }

  static __device__ __forceinline__ void copy(unsigned char* to, const unsigned char* from,
                                              int32_t bytes, uint64_t* full) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from,
                             static_cast<uint32_t>(bytes), full);
  }

  template <bool kReadsUnits>
  __device__ __forceinline__ void load(int32_t position, int32_t chunk, bool wanted,
                                       Units& units) const {
    const T* from = static_cast<const T*>(args_.source) + first_source_;
    const bool exists = wanted && find_pixel(args_, position, from);
    const int32_t first = chunk * kChunkUnits * kPerCell;
    from += first * args_.source_c;
    const int32_t channels = exists ? args_.source_channels - first : 0;
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; ++unit) {
      if constexpr (kReadsUnits) {
        units.units[unit] = unit * kPerCell < channels
                                ? __ldg(reinterpret_cast<const uint4*>(from + unit * kPerCell))
                                : uint4{};
      } else {
#pragma unroll
        for (int i = 0; i < kPerCell; ++i) {
          Of::template load<false>(from, units.pixels[unit][i], unit * kPerCell + i < channels);
          from += args_.source_c;
        }
      }
    }
  }

  template <bool kReadsUnits>
  static __device__ __forceinline__ uint4 operand(const Units& units, int unit) {
    uint32_t words[4];
    if constexpr (kReadsUnits) {
      const uint4& all = units.units[unit];
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
      if constexpr (kPerCell == 4) {
#pragma unroll
        for (uint32_t& word : words) word = round_to_tf32(__uint_as_float(word));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t terms[1];
        Of::words(units.pixels[unit], i, 0, false, terms);
        words[i] = terms[0];
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  const Arguments& args_;
  const SharedMemory<kColumns>& shared_;
  const int32_t thread_;
  int32_t first_source_ = 0;  // element of the source, of the tile's product
  RingPosition ring_;
};

}  // namespace haloconv::all_phases
