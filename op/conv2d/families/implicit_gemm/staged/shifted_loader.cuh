// Brings chunks of the source to the staging area and turns them into windows, also those whose
// rows are shifted: staging.h.
#pragma once

#include "conv2d/families/implicit_gemm/staged/loader.cuh"
#include "cuda/transpose_matrix.cuh"

namespace haloconv::implicit_gemm {

template <class T, int kThreads>
class ShiftedLoader : StagingLoader<T, kThreads> {
  using Base = StagingLoader<T, kThreads>;
  static constexpr auto kElementBytes = static_cast<int32_t>(sizeof(T));

 public:
  using Base::Base;
  using Base::batches;
  using Base::copy_elements;
  using Base::has_elements;

  // The next batch is the first of the chunk.
  __device__ __forceinline__ void begin(int32_t chunk) {
    if (!args_.shifts_rows) return Base::begin(chunk);
    chunk_channel_ = chunk * chunk_channels();
    granule_ = first_granule_;
    aim();
  }

  // One batch.
  __device__ __forceinline__ void copy(uint32_t staging) {
    if (!args_.shifts_rows) return Base::copy(staging);
    copy_batch(staging);
    channel_ += kStagedBatch * channel_step_;
    if (channel_ < chunk_channels()) return;
    granule_ += 1 << args_.staging.log_threads;
    aim();
  }

  // What was staged since begin(), as a window, by all threads.
  __device__ __forceinline__ void turn(uint32_t staging, uint32_t window) const {
    if (!args_.shifts_rows)
      return turn_window<T, kThreads, /*kInPlanes=*/true>(args_, staging, window);
    // A warp turns whole rows of units.
    const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
    const int32_t items = origin_.rows << args_.windows.log_units;
#pragma unroll 1
    for (int32_t item = warp; item < items; item += kThreads / 32) {
      turn_row(staging, window, item >> args_.windows.log_units,
               item & (args_.windows.units() - 1));
    }
  }

 private:
  using Base::args_;
  using Base::bytes_;
  using Base::channel_;
  using Base::channel_step_;
  using Base::channels_left;
  using Base::chunk_channel_;
  using Base::chunk_channels;
  using Base::exists_;
  using Base::first_channel_;
  using Base::first_granule_;
  using Base::from_;
  using Base::granule_;
  using Base::origin_;
  using Base::source_;
  using Base::to_;

  // At a place's first channel: from_ is where the window's row begins, and bytes_ are the image's
  // row's, or none.
  __device__ __forceinline__ void aim() {
    const Gather& g = args_.geometry;
    const Staging& staging = args_.staging;
    const int32_t y = staging.row_granules.quotient(granule_);
    exists_ = granule_ < staging.granules && y < origin_.rows;
    const bool inside = static_cast<uint32_t>(origin_.h + y) < static_cast<uint32_t>(g.source_h);
    bytes_ = inside ? g.source_w * kElementBytes : 0;
    channel_ = first_channel_;
    from_ = source_ + (chunk_channel_ + channel_) * g.source.c + y * g.source.h;
    to_ = channel_ * staging.line + granule_ * kShiftedBytes;
  }

  __device__ __forceinline__ void copy_batch(uint32_t staging) {
    const int64_t step = channel_step_ * args_.geometry.source.c;
    const int32_t line = channel_step_ * args_.staging.line;
    const int32_t channels = channels_left();
    // From the staged row's beginning: worked out anew, so that no register holds it in between.
    const FastDiv& row = args_.staging.row_granules;
    const int32_t unit = (granule_ - row.quotient(granule_) * row.divisor) * kShiftedBytes;
#pragma unroll
    for (int i = 0; i < kStagedBatch; ++i) {
      const int32_t behind = unit - shift_of(low_bits(from_));  // the row's beginning
      const int32_t first = origin_.w * kElementBytes + behind;
      const int32_t bytes = i * channel_step_ < channels ? shifted_unit_bytes(first, bytes_) : 0;
      if (exists_ && behind < origin_.columns * kElementBytes) {
        copy_async_bytes<kShiftedBytes>(staging + to_,
                                        reinterpret_cast<const char*>(from_) + behind, bytes);
      }
      from_ += step;
      to_ += line;
    }
  }

  static __device__ __forceinline__ uint32_t low_bits(const T* at) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at));
  }
  static __device__ __forceinline__ int32_t shift_of(uint32_t address) {
    return static_cast<int32_t>(address % kShiftedBytes);
  }

  // Where a row of one of the chunk's channels begins in the staging area.
  __device__ __forceinline__ uint32_t staged_row(uint32_t staging, int32_t y,
                                                 int32_t channel) const {
    const Gather& g = args_.geometry;
    const uint32_t address = low_bits(source_ + chunk_channel_ * g.source.c) +
                             channel * static_cast<uint32_t>(g.source.c * kElementBytes) +
                             y * static_cast<uint32_t>(g.source.h * kElementBytes);
    return staging + channel * args_.staging.line +
           y * args_.staging.row_granules.divisor * kShiftedBytes + shift_of(address);
  }

  // Of what lies before the image's rows zeros.
  __device__ __forceinline__ void turn_row(uint32_t staging, uint32_t window, int32_t y,
                                           int32_t unit) const {
    const Windows& windows = args_.windows;
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t pitch = windows.pitch.divisor;
    const int32_t before = -origin_.w;  // the image's first column
    constexpr int kAtOnce = 3;
    if constexpr (sizeof(T) == 2) {
      // Of 8 pixels lane l has two neighbours of channel l / 4, and then two channels of pixel
      // l / 4.
      const uint32_t from = staged_row(staging, y, unit * 8 + lane / 4) + lane % 4 * kWordBytes;
      const uint32_t to =
          window + staged_place(windows, y * pitch + lane / 4, unit) + lane % 4 * kWordBytes;
#pragma unroll 1
      for (int32_t first = 0; first < pitch; first += kAtOnce * 8) {
        uint32_t words[kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          // Behind the last there is the first once more, which is not stored.
          const int32_t column = first + n * 8 < pitch ? first + n * 8 : 0;
          load_shared_bits(from + column * kElementBytes, words[n]);
          const int32_t missing = before - column - lane % 4 * 2;  // of the word's pixels
          words[n] &= missing > 1 ? 0 : missing > 0 ? 0xffff0000 : ~0u;
        }
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          const uint32_t turned = transpose_matrix(words[n]);
          if (first + n * 8 < pitch) store_shared_bits(to + (first + n * 8) * kUnitBytes, turned);
        }
      }
    } else {
      // A lane has a pixel.
      uint32_t from[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        from[i] = staged_row(staging, y, unit * 4 + i) + lane * kElementBytes;
      }
      const uint32_t to = window + staged_place(windows, y * pitch + lane, unit);
#pragma unroll 1
      for (int32_t first = 0; first < pitch; first += 32) {
        // Behind the last pixel there is the first once more, which is not stored.
        const bool exists = first + lane < pitch;
        const int32_t further = (exists ? first : -lane) * kElementBytes;
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          load_shared_bits(from[i] + further, words[i]);
          words[i] = first + lane < before ? 0 : round_to_tf32(__uint_as_float(words[i]));
        }
        if (exists) store_unit(to + first * kUnitBytes, words);
      }
    }
  }
};

}  // namespace haloconv::implicit_gemm
