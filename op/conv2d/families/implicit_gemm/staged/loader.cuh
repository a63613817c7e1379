// Brings chunks of the source to the staging area, and turns them into windows.
#pragma once

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/families/implicit_gemm/staged/staged_window.h"
#include "conv2d/families/implicit_gemm/windows/loader.cuh"
#include "cuda/mma.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::implicit_gemm {

// A thread copies granules from a place of its own in the window, of some channels, then from its
// next place. Neighbouring threads have neighbours in memory.
template <class T, int kThreads>
class StagingLoader {
 public:
  __device__ __forceinline__ StagingLoader(const Arguments& args, const WindowOrigin& origin)
      : args_(args), origin_(origin) {
    const Staging& staging = args.staging;
    const auto thread = static_cast<int32_t>(threadIdx.x);
    first_granule_ = thread & ((1 << staging.log_threads) - 1);
    first_channel_ = thread >> staging.log_threads;
    channel_step_ = kThreads >> staging.log_threads;
    source_ = static_cast<const T*>(args.source) + origin_.offset;
  }

  // Whether elements pass through registers, all at once.
  __device__ __forceinline__ bool has_elements() const {
    return sizeof(T) == 2 && args_.staging.granule == 2;
  }

  // Of a thread, in a chunk, but of elements.
  __device__ __forceinline__ int32_t batches() const {
    if (has_elements()) return 0;
    const int32_t log_threads = args_.staging.log_threads;
    const int32_t places = (args_.staging.granules + (1 << log_threads) - 1) >> log_threads;
    return places * (chunk_channels() / (kStagedBatch * channel_step_));
  }

  // The next batch is the first of the chunk.
  __device__ __forceinline__ void begin(int32_t chunk) {
    chunk_channel_ = chunk * chunk_channels();
    granule_ = first_granule_;
    aim();
  }

  // One batch.
  __device__ __forceinline__ void copy(uint32_t staging) {
    switch (args_.staging.granule) {
      case 16:
        copy_batch<16>(staging);
        break;
      case 8:
        copy_batch<8>(staging);
        break;
      default:
        copy_batch<4>(staging);
    }
    channel_ += kStagedBatch * channel_step_;
    if (channel_ < chunk_channels()) return;
    granule_ += 1 << args_.staging.log_threads;
    aim();
  }

  // All of the chunk, by elements.
  __device__ __forceinline__ void copy_elements(uint32_t staging) {
    constexpr int kAtOnce = 16;
    const int64_t step = args_.geometry.source.c;
    const int32_t line = args_.staging.line;
    for (; granule_ < args_.staging.granules; granule_ += kThreads, aim()) {
      for (; channel_ < chunk_channels(); channel_ += kAtOnce) {
        uint16_t elements[kAtOnce];
        const int32_t channels = bytes_ > 0 ? channels_left() : 0;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          load_global_bits(from_, elements[i], i < channels);
          from_ += step;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          store_shared_bits(staging + to_, elements[i]);
          to_ += line;
        }
      }
    }
  }

 protected:
  __device__ __forceinline__ int32_t chunk_channels() const {
    return args_.windows.units() * (kUnitBytes / static_cast<int32_t>(sizeof(T)));
  }
  __device__ __forceinline__ int32_t channels_left() const {
    return args_.geometry.channels - chunk_channel_ - channel_;
  }

  // At a place's first channel.
  __device__ __forceinline__ void aim() {
    const Gather& g = args_.geometry;
    const Staging& staging = args_.staging;
    const int32_t y = staging.row_granules.quotient(granule_);
    const int32_t x = (granule_ - y * staging.row_granules.divisor) * staging.granule_pixels;
    const int32_t h = origin_.h + y, w = origin_.w + x;
    exists_ = granule_ < staging.granules && y < origin_.rows && x < origin_.columns;
    const bool inside = w >= 0 && static_cast<uint32_t>(h) < static_cast<uint32_t>(g.source_h);
    const int32_t pixels = inside ? min(max(g.source_w - w, 0), staging.granule_pixels) : 0;
    bytes_ = pixels * static_cast<int32_t>(sizeof(T));
    channel_ = first_channel_;
    from_ = source_ + (chunk_channel_ + channel_) * g.source.c + y * g.source.h + x * g.source.w;
    to_ = channel_ * staging.line + granule_ * staging.granule;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_batch(uint32_t staging) {
    const int64_t step = channel_step_ * args_.geometry.source.c;
    const int32_t line = channel_step_ * args_.staging.line;
    const int32_t channels = channels_left();
#pragma unroll
    for (int i = 0; i < kStagedBatch; ++i) {
      if (exists_) {
        copy_async_bytes<kBytes>(staging + to_, from_, i * channel_step_ < channels ? bytes_ : 0);
      }
      from_ += step;
      to_ += line;
    }
  }

  const Arguments& args_;
  WindowOrigin origin_;
  int32_t first_granule_, first_channel_, channel_step_;
  const T* source_;  // the window's first pixel
  // Of the next batch.
  int32_t chunk_channel_, channel_, granule_, to_;
  bool exists_;
  int32_t bytes_;  // inside of the source
  const T* from_;
};

// So many pixels that are staged as those from `window` on, by all threads: a warp turns
// kTurnedPixels pixels of a unit at a time, always of the same unit, and loads a few times before
// it stores. float32 is rounded. The window's places are staged_place(), or place().
template <class T, int kThreads, bool kInPlanes = false>
__device__ __forceinline__ void turn_pixels(const Arguments& args, uint32_t staging,
                                            uint32_t window, int32_t pixels) {
  constexpr int kWarps = kThreads / 32, kAtOnce = 4;
  constexpr bool kIsFloat = sizeof(T) == 4;
  const Windows& windows = args.windows;
  const int32_t line = args.staging.line;
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t step = (kWarps >> windows.log_units) * kTurnedPixels;
  const int32_t unit = warp & (windows.units() - 1);
  int32_t first = (warp >> windows.log_units) * kTurnedPixels;
  // Of 16-bit types lane l names 8 pixels of channel l % 8, and gets 2 channels of a pixel of each
  // 8; of float32 it has a pixel. Pixels that are a multiple of 8 apart lie as far apart.
  const int32_t column = kIsFloat ? lane : lane / 4;
  uint32_t from = staging + (kIsFloat ? unit * 4 : unit * 8 + lane % 8) * line +
                  (first + (kIsFloat ? lane : lane / 8 * 8)) * static_cast<int32_t>(sizeof(T));
  uint32_t to = window +
                (kInPlanes ? staged_place(windows, first + column, unit)
                           : windows.place(first + column, unit)) +
                (kIsFloat ? 0 : lane % 4 * 4);
  const int32_t pixel_bytes = kInPlanes ? kUnitBytes : kUnitBytes << windows.log_units;
#pragma unroll 1
  for (; first < pixels; first += kAtOnce * step) {
    uint32_t words[kAtOnce][4];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      // Behind the last there is the first once more, which is not stored.
      const int32_t further = first + n * step < pixels ? n * step : 0;
      if constexpr (kIsFloat) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float value[1];
          load_shared(from + further * 4 + i * line, value);
          words[n][i] = __float_as_uint(value[0]);
        }
      } else {
        load_matrices_transposed(from + further * 2, words[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int32_t further = n * step;
      if constexpr (kIsFloat) {
        for (uint32_t& word : words[n]) word = round_to_tf32(__uint_as_float(word));
        if (first + further + column < pixels) store_unit(to + further * pixel_bytes, words[n]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (first + further + i * 8 < pixels) {
            store_shared_bits(to + (further + i * 8) * pixel_bytes, words[n][i]);
          }
        }
      }
    }
    from += kAtOnce * step * static_cast<int32_t>(sizeof(T));
    to += kAtOnce * step * pixel_bytes;
  }
}

// What is staged as a whole window.
template <class T, int kThreads, bool kInPlanes = false>
__device__ __forceinline__ void turn_window(const Arguments& args, uint32_t staging,
                                            uint32_t window) {
  turn_pixels<T, kThreads, kInPlanes>(args, staging, window,
                                      args.windows.bytes / kUnitBytes >> args.windows.log_units);
}

}  // namespace haloconv::implicit_gemm
