// Writes the results of a math warpgroup's tile of a 16-bit type. They are rounded on their way to
// shared memory, two pixels to a word, so that all 16 channels of a warp fit there at a time.
//
// Sums that must stay in float32 until they are complete, those of splits and of folds, go through
// epilogue.cuh instead.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/halo/results.cuh"
#include "conv2d/families/halo/row_terms.cuh"

namespace haloconv::halo {

template <class T, int kInstructions, int kWidth>
class EpilogueOf16Bits : Results<T, kInstructions * kWidth> {
  static_assert(sizeof(T) == 2);
  static constexpr int kPixels = kInstructions * kWidth;
  static constexpr int kRows = 16;   // channels of a warp
  static constexpr int kVector = 8;  // pixels of 16 bytes
  // Bytes from one channel to the next: room for a line that begins within a vector; 16 modulo 32,
  // so that the accumulators' layout meets no bank twice.
  static constexpr int kPitch = kPixels * 2 + 16;

  using Base = Results<T, kPixels>;
  template <int kPixelsAtOnce>
  using LanePixels = typename Base::template LanePixels<kPixelsAtOnce>;
  using Base::args_;
  using Base::first_of;
  using Base::first_output;
  using Base::first_row;
  using Base::has;
  using Base::lane_;
  using Base::staging_;
  static_assert(kRows * kPitch <= 8 * Base::kPitch * 4 && kPitch % 32 == 16);

 public:
  __device__ __forceinline__ EpilogueOf16Bits(const Arguments& args, const SharedMemory& shared)
      : Base(args, shared) {}

  // Calls after_sums() when it needs neither sums nor terms any longer.
  template <class Body>
  __device__ __forceinline__ void run(const float (&sums)[kInstructions][kWidth / 2],
                                      const RowTerms<T, false>& terms, const TilePosition& tile,
                                      Body after_sums) const {
    stage(sums, terms, tile);
    __syncwarp();
    after_sums();
    if (args_.one_line) {
      if (args_.vector == 1) {
        write_line<1>(tile);
      } else {
        write_line<2>(tile);
      }
    } else if (args_.vector == 8) {
      write_pixels<8>(tile);
    } else if (args_.vector == 4) {
      write_pixels<4>(tile);
    } else if (args_.vector == 2) {
      write_pixels<2>(tile);
    } else {
      write_pixels<1>(tile);
    }
    __syncwarp();
  }

 private:
  // A line (the whole tile in one row) is staged so that 16-byte vectors of global memory are
  // 16-byte vectors of shared memory too, or are one pixel off, since two pixels make a word.
  __device__ __forceinline__ void stage(const float (&sums)[kInstructions][kWidth / 2],
                                        const RowTerms<T, false>& terms,
                                        const TilePosition& tile) const {
    T* const line = first_of(destination(), tile, first_row(tile, 0));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t row = half * 8 + lane_ / 4;
      const uint32_t staged = staged_row(row, line) + lane_ % 4 * 4;
      for_each_instruction([&](int i, int32_t pixel, int32_t step) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          const float first = terms.apply(sums[i][j * 4 + half * 2], half);
          const float second = terms.apply(sums[i][j * 4 + half * 2 + 1], half);
          store_shared_bits(staged + (pixel + j * step) * 2, Element<T>::pair(first, second));
        }
      });
    }
  }

  // Calls body(i, pixel, step) for each instruction: the tile's pixel that its first eight begin
  // with, and how many on its next eight do. Shared with epilogue.cuh it costs that a register.
  template <class Body>
  __device__ __forceinline__ void for_each_instruction(Body body) const {
    if (args_.patches) {
      const int32_t across = args_.group_columns / 8;
#pragma unroll
      for (int i = 0; i < kInstructions; ++i) {
        body(i, i / across * (kWidth / 8) * args_.group_columns + i % across * 8,
             args_.group_columns);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kInstructions; ++i) body(i, i * kWidth, 8);
    }
  }

  // Where a row's pixels are staged, and before them as many as there are from the beginning of a
  // vector to the line's, rounded down to words.
  __device__ __forceinline__ uint32_t staged_row(int32_t row, const T* line) const {
    const uint32_t at = staging_ + row * kPitch;
    return args_.one_line ? at + before(line + row * args_.destination_c) / 2 * 4 : at;
  }
  // Pixels from the beginning of a vector of memory.
  static __device__ __forceinline__ int32_t before(const T* at) {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(at) / sizeof(T) % kVector);
  }

  // A tile that is a piece of one row: vectors of memory, which may begin within the piece's first
  // and end within its last one. kUnit: pixels whose neighbours lie as in shared memory.
  template <int kUnit>
  __device__ __forceinline__ void write_line(const TilePosition& tile) const {
    constexpr int kAtOnce = 4;
    const FoldedRows::Row at = first_row(tile, 0);
    const typename Base::Output first = first_output(tile);
    const int32_t rows = has(tile, at, first) ? min(kRows, args_.rows - at.channel) : 0;
    const int32_t pixels = min(kPixels, args_.w.outputs - first.q);
    T* const line = first_of(destination(), tile, at);
    T* channel = line;
    const uint32_t staged = staging_ + min(lane_ * 16, kPitch - 16);  // of no lane another row's
#pragma unroll 1
    for (int32_t row = 0; row < kRows; row += kAtOnce) {
      uint32_t vectors[kAtOnce][4];
      int32_t shift[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        shift[j] = before(channel + j * args_.destination_c);
        load_vector<kUnit>(staged + (row + j) * kPitch, shift[j] % 2, vectors[j]);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, channel += args_.destination_c) {
        const int32_t pixel = lane_ * kVector - shift[j];
        store_global_bits(at_bytes(channel - shift[j], lane_ * 16), vectors[j],
                          row + j < rows && pixel >= 0 && pixel + kVector <= pixels);
      }
    }
    if (args_.vector < kVector) write_ends<kUnit>(line, rows, pixels);
  }

  // Writes what vectors of a line cover only partly: its beginning, if it begins within a vector,
  // and its end.
  template <int kUnit>
  __device__ __forceinline__ void write_ends(T* line, int32_t rows, int32_t pixels) const {
    constexpr int kLanes = kVector / kUnit;
    const int32_t unit = lane_ % kLanes * kUnit;
#pragma unroll
    for (int first = 0; first < kRows; first += 32 / kLanes) {
      const int32_t row = first + lane_ / kLanes;
      T* const channel = line + row * args_.destination_c;
      const int32_t shift = before(channel);
      const uint32_t staged = staged_row(row, line);
      const bool begins_within = shift > 0 || pixels < kVector;
      const int32_t last_vector = (shift + pixels) / kVector * kVector;
      const auto write = [&](int32_t pixel, bool wanted) {
        const bool inside = wanted && row < rows && pixel >= 0 && pixel < pixels;
        typename Element<T>::template Pixels<kUnit> values;
        load_shared_bits(staged + (inside ? pixel : 0) * 2, values.bits);
        store_global_bits(channel + pixel, values.bits, inside);
      };
      write(unit - shift, begins_within);
      write(last_vector + unit - shift, last_vector > 0);
    }
  }

  // A vector of global memory, from the same place in shared memory or, if `odd`, from one pixel
  // before it.
  template <int kUnit>
  static __device__ __forceinline__ void load_vector(uint32_t at, int32_t odd,
                                                     uint32_t (&vector)[4]) {
    load_shared_bits(at, vector);
    if constexpr (kUnit == 1) {
      uint32_t previous = __shfl_up_sync(~0u, vector[3], 1);  // none is needed of the first lane
      const uint32_t selector = odd != 0 ? 0x5432 : 0x7654;
#pragma unroll
      for (uint32_t& word : vector) {
        const uint32_t lower = previous;
        previous = word;
        word = __byte_perm(lower, word, selector);
      }
    }
  }

  // A tile of several rows, kAtOnce pixels of a lane at a time.
  template <int kAtOnce>
  __device__ __forceinline__ void write_pixels(const TilePosition& tile) const {
    using Pixels = LanePixels<kAtOnce>;
    using Bits = std::conditional_t<kAtOnce == 1, uint16_t, uint32_t[(kAtOnce + 1) / 2]>;
    constexpr int kCount = Pixels::kCount;
    constexpr int kRowsAtOnce = 4;
    const FoldedRows::Row at = first_row(tile, 0);
    const int32_t rows = min(kRows, args_.rows - at.channel);
#pragma unroll 1
    for (int first_vector = 0; first_vector < Pixels::kTotal; first_vector += kCount) {
      Pixels pixels;
      this->locate(tile, 0, first_vector, pixels);
      T* channel = first_of(destination(), tile, at);
      uint32_t staged = staging_;
#pragma unroll 1
      for (int32_t row = 0; row < kRows; row += kRowsAtOnce) {
        Bits bits[kRowsAtOnce][kCount];
#pragma unroll
        for (int j = 0; j < kRowsAtOnce; ++j, staged += kPitch) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            load_shared_bits(
                staged + pixels.staged(((first_vector + i) * 32 + lane_) * kAtOnce) / 2,
                bits[j][i]);
          }
        }
#pragma unroll
        for (int j = 0; j < kRowsAtOnce; ++j, channel += args_.destination_c) {
          if (row + j >= rows) break;
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            store_global_bits(at_bytes(channel, pixels.offset[i]), bits[j][i],
                              pixels.offset[i] >= 0);
          }
        }
      }
    }
  }

  __device__ __forceinline__ T* destination() const { return static_cast<T*>(args_.destination); }
};

}  // namespace haloconv::halo
