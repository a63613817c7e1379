// Brings rows of the source, one after the other, to the ring of a strip.
#pragma once

#include "conv2d/families/implicit_gemm/staged/loader.cuh"
#include "conv2d/families/implicit_gemm/strips/strips.h"
#include "cuda/copy_granule.cuh"

namespace haloconv::implicit_gemm {

// A thread copies the granules of one place in the row, of some channels. Neighbouring threads have
// neighbours in memory.
template <class T>
class StripLoader {
 public:
  __device__ __forceinline__ StripLoader(const Arguments& args, const PatchPosition& at)
      : args_(args) {
    const Gather& g = args.geometry;
    const Staging& staging = args.staging;
    const WindowOrigin origin(args, at, /*patch_rows=*/1);
    const int32_t columns = origin.columns + strip_columns(sizeof(T)) - kWideColumns;
    const int32_t granule = static_cast<int32_t>(threadIdx.x) & ((1 << staging.log_threads) - 1);
    const int32_t x = granule * staging.granule_pixels, w = origin.w + x;
    const int32_t pixels = w >= 0 ? min(max(g.source_w - w, 0), staging.granule_pixels) : 0;
    const bool exists = granule < staging.granules && x < columns;
    bytes_ = exists ? pixels * static_cast<int32_t>(sizeof(T)) : -1;
    h_ = origin.h;
    to_ = first_channel() * staging.line + granule * staging.granule;
    from_ = static_cast<const T*>(args.source) + origin.offset + first_channel() * g.source.c +
            x * g.source.w;
  }

  // Of the next row, if it exists, all channels, to the staging area: a group of copies.
  __device__ __forceinline__ void copy_row(uint32_t staging, bool exists) {
    if (exists && bytes_ >= 0) {
      const bool inside =
          static_cast<uint32_t>(h_) < static_cast<uint32_t>(args_.geometry.source_h);
      const int32_t bytes = inside ? bytes_ : 0;
      with_granule(args_.staging.granule,
                   [&]<int kBytes>() { copy<kBytes>(staging + to_, bytes); });
    }
    ++h_;
    from_ += args_.geometry.source.h;
    commit_copies();
  }

  // What is staged to where a row of the ring begins.
  __device__ __forceinline__ void turn_row(uint32_t staging, uint32_t row) const {
    turn_pixels<T, kStripTile.threads(), /*kInPlanes=*/true>(args_, staging, row,
                                                             args_.windows.pitch.divisor);
  }

 private:
  __device__ __forceinline__ int32_t first_channel() const {
    return static_cast<int32_t>(threadIdx.x) >> args_.staging.log_threads;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy(uint32_t to, int32_t bytes) const {
    const Gather& g = args_.geometry;
    const int32_t channels = args_.windows.units() * (kUnitBytes / static_cast<int32_t>(sizeof(T)));
    const int32_t channel_step = kStripTile.threads() >> args_.staging.log_threads;
    const int64_t step = channel_step * g.source.c;
    const int32_t line = channel_step * args_.staging.line;
    const T* from = from_;
#pragma unroll 1
    for (int32_t channel = first_channel(); channel < channels;
         channel += kStagedBatch * channel_step) {
#pragma unroll
      for (int i = 0; i < kStagedBatch; ++i) {
        copy_async_bytes<kBytes>(to, from, channel + i * channel_step < g.channels ? bytes : 0);
        from += step;
        to += line;
      }
    }
  }

  const Arguments& args_;
  const T* from_;  // the next row's granule of the thread's first channel
  int32_t h_, to_;
  int32_t bytes_;  // of a granule inside of the source, or -1: there is none
};

}  // namespace haloconv::implicit_gemm
