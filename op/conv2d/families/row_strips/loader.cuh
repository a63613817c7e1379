// The load warps bring source pixels to the ring as 32-bit words: float32 as it is, which the math
// warps round, or two channels of a pixel of a 16-bit type. A stage has word rows, in which
// neighbouring words are neighbouring pixels, so that any shift of a tap is one of an address.
#pragma once

#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/row_strips/shared_memory.cuh"
#include "conv2d/families/row_strips/sweep.cuh"
#include "cuda/copy_arrival.cuh"
#include "cuda/copy_async_or_zeros.cuh"
#include "cuda/mbarrier.cuh"

namespace haloconv::row_strips {

template <class T>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Arguments& args, const SharedMemory& shared,
                                    int32_t thread, int32_t first_channel, bool has_zeros)
      : args_(args), shared_(shared), first_channel_(first_channel), has_zeros_(has_zeros) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int32_t index = i * kLoadThreads + thread;
      const int32_t word_row = args.vectors_div.quotient(index);
      const int32_t column = (index - word_row * args.vectors) * kVector<T>;
      column_[i] = word_row < kWordRows ? column : kNone;
      from_[i] = word_row * kPerWord<T> * static_cast<int32_t>(args.source_c) + column;
      to_[i] = shared_address(shared.ring()) + (word_row * args.pitch + column) * 4;
    }
  }

  template <int kBlocks>
  __device__ __forceinline__ void run() {
    for_each_segment<kBlocks>(args_, [&](int32_t band, const Segment& segment) {
      const int32_t window_column = args_.source_column(band);
      const T* const image = static_cast<const T*>(args_.source) + segment.image * args_.source_n +
                             first_channel_ * args_.source_c + window_column;
      const int32_t lines = args_.source_lines(segment);
      for (int32_t line = 0; line < lines; ++line) {
        const int32_t row = args_.source_row(segment, line);
        if (is_multiplied(args_, row, has_zeros_)) {
          load_row(image + row * args_.source_h, row, window_column);
        }
      }
    });
  }

 private:
  // 16 bytes of each of a word row's channels.
  static constexpr int kItems =
      (kWordRows * (kMostPitch / kVector<T>)+kLoadThreads - 1) / kLoadThreads;
  static constexpr int32_t kNone = INT32_MIN / 2;  // before all columns
  struct Loaded {
    float values[kPerWord<T>][4];
  };

  __device__ __forceinline__ void load_row(const T* row_from, int32_t row, int32_t window_column) {
    const bool is_inside = static_cast<uint32_t>(row) < static_cast<uint32_t>(args_.source_height);
    bool exists[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int32_t x = window_column + column_[i];
      exists[i] = is_inside && static_cast<uint32_t>(x) < static_cast<uint32_t>(args_.source_width);
    }
#pragma unroll 1
    for (int32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      if constexpr (std::is_same_v<T, float>) {
        copy_chunk(row_from, exists);
      } else {
        load_chunk(row_from, exists);
      }
      ring_.advance(args_.stages);
      row_from += kChunk<T> * args_.source_c;
    }
  }

  __device__ __forceinline__ void copy_chunk(const T* chunk_from, const bool (&exists)[kItems]) {
    mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    const uint32_t stage = ring_.stage * args_.stage_bytes;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (column_[i] != kNone) {
        copy_async_or_zeros<16>(to_[i] + stage, chunk_from + from_[i], exists[i]);
      }
    }
    // The barrier counts this arrival when the copies have ended.
    mbarrier_arrive_after_copies(shared_.full(ring_.stage));
  }

  __device__ __forceinline__ void load_chunk(const T* chunk_from, const bool (&exists)[kItems]) {
    Loaded loaded[kItems];
#pragma unroll
    for (int j = 0; j < kPerWord<T>; ++j) {
      const T* const channel_from = chunk_from + j * args_.source_c;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        load_global(reinterpret_cast<const float*>(channel_from + from_[i]), loaded[i].values[j],
                    exists[i]);
      }
    }
    mbarrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    const uint32_t stage = ring_.stage * args_.stage_bytes;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (column_[i] != kNone) store(to_[i] + stage, loaded[i]);
    }
    cuda::ptx::mbarrier_arrive(shared_.full(ring_.stage));
  }

  static __device__ __forceinline__ void store(uint32_t to, const Loaded& loaded) {
    uint32_t words[kVector<T>];
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) {
      words[i] = Element<T>::halves(__float_as_uint(loaded.values[0][i / 2]),
                                    __float_as_uint(loaded.values[1][i / 2]), i % 2 == 1);
    }
#pragma unroll
    for (int i = 0; i < kVector<T>; i += 4) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * 4), "r"(words[i]),
                   "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3])
                   : "memory");
    }
  }

  const Arguments& args_;
  const SharedMemory& shared_;
  const int32_t first_channel_;
  const bool has_zeros_;
  int32_t column_[kItems];  // of the window, or kNone
  int32_t from_[kItems];    // elements from a chunk's first
  uint32_t to_[kItems];     // in stage 0
  RingPosition ring_;
};

}  // namespace haloconv::row_strips
