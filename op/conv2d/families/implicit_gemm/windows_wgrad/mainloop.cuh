// A warp's products: operands from a window and a patch of grad_output, sums in registers.
//
// A depth is what one matrix instruction sums: of 16-bit types a row of the patch, of float32 half
// of one. While one is multiplied the operands of the next are loaded.
#pragma once

#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/mainloop.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/mma.cuh"

namespace haloconv::windows_wgrad {

// As the matrix instruction has them: of each 16 rows and 8 columns four. The bias gradient, of the
// same two rows: of 16-bit types the instruction sums it, and each thread of a quad has all of it;
// of float32, which is not rounded for it, each has a part.
template <class T, Tile kTile>
struct Sums {
  static constexpr int kRowBlocks = 4, kColumnBlocks = kTile.warp_columns() / 8;
  float of[kRowBlocks][kColumnBlocks][4];
  float bias[kRowBlocks][2];
};

// A word of two ones.
template <class T>
inline constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;

template <class T, Tile kTile>
class Products {
  using Sums = Sums<T, kTile>;
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  static constexpr int kUnitElements = implicit_gemm::kUnitBytes / sizeof(T);
  static constexpr int kDepthBytes = 32;  // of a channel of grad_output
  // 16 columns, or 8 where they are an odd number of 8.
  static constexpr int kPairs = (Sums::kColumnBlocks + 1) / 2;
  // Places of columns: of each pair, or of float32 of each 8.
  static constexpr int kPlaces = kIsFloat ? Sums::kColumnBlocks : kPairs;

 public:
  static constexpr int kRowDepths = kIsFloat ? 2 : 1;

  __device__ __forceinline__ Products(const Arguments& args, const WarpPosition& at,
                                      uint32_t window, Sums& sums)
      : sums_(sums) {
    const implicit_gemm::Arguments& forward = args.forward;
    const implicit_gemm::Windows& windows = forward.windows;
    const Phase& phase = forward.phases[0];
    row_bytes_ = windows.place(windows.pitch.divisor, 0);
    half_bytes_ = windows.place(8, 0);
    line_ = grad_output_line(args.patch_rows * implicit_gemm::kPatchColumns, sizeof(T));
    rows_ = (at.row + at.lane % 16) * line_ + at.lane / 16 * implicit_gemm::kUnitBytes;
#pragma unroll
    for (int j = 0; j < kPlaces; ++j) {
      // Of 16-bit types half of the lanes have the second 8 columns, or, where there are none, the
      // first once more.
      const bool is_second = !kIsFloat && j * 2 + 1 < Sums::kColumnBlocks && at.lane / 16 != 0;
      const int32_t column = kIsFloat ? j * 8 : j * 16 + (is_second ? 8 : 0);
      const int32_t tap = at.tap_of(column) < phase.taps.divisor ? at.tap_of(column) : 0;
      const int32_t y = tap / phase.w.taps;
      const int32_t pixel = y * forward.geometry.axis_h.shift_step * windows.pitch.divisor +
                            (tap - y * phase.w.taps) * forward.geometry.axis_w.shift_step +
                            window_lead(forward, phase);
      const int32_t unit = at.channel_of(column) / kUnitElements + (kIsFloat ? at.lane / 16 : 0);
      if constexpr (kIsFloat) {
        const int32_t word = at.lane / 4 % 4 * 4;
        columns_[j] = window + windows.place(pixel + at.lane % 4, unit) + word;
        next_columns_[j] = window + windows.place(pixel + 4 + at.lane % 4, unit) + word;
      } else {
        columns_[j] = window + windows.place(pixel + at.lane % 16, unit);
      }
    }
  }

  // The columns of a patch that there are: the window's pixels of the others count as zeros.
  __device__ __forceinline__ void set_columns(int32_t count, int32_t lane) {
    if constexpr (kIsFloat) {
#pragma unroll
      for (int i = 0; i < 4; ++i) masks_[i / 2][i % 2] = lane % 4 + i * 4 < count ? ~0u : 0;
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t left = count - lane % 4 * 2 - i * 8;
        masks_[0][i] = left > 1 ? ~0u : left > 0 ? 0xffff : 0;
      }
    }
  }

  // The operands of a patch's first depth.
  __device__ __forceinline__ void load(uint32_t grad_output) {
    grad_output_ = grad_output + rows_;
    depth_ = 0;
#pragma unroll
    for (int i = 0; i < Sums::kRowBlocks; ++i) load_rows(i);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) load_columns<0>(j);
  }

  // Multiplies a depth, whose number is odd or even as kDepth is, while the next is loaded. Both in
  // one block of code were compiled to loads from a wrong place (benchmarks/NOTES.md).
  template <int kDepth, bool kSumsBias>
  __device__ __forceinline__ void multiply() {
    constexpr int kMask = kIsFloat ? kDepth : 0;
    ++depth_;
#pragma unroll
    for (auto& four : loaded_[kDepth]) {
#pragma unroll
      for (int k = 0; k < 4; ++k) four[k] &= masks_[kMask][k % 2];
    }
#pragma unroll
    for (int i = 0; i < Sums::kRowBlocks; ++i) {
      if (i < kPairs) load_columns<1 - kDepth>(i);
      multiply_block<kSumsBias>(i, loaded_[kDepth]);
      load_rows(i);
    }
  }

 private:
  __device__ __forceinline__ void load_rows(int i) {
    // Matrices: 8 rows, the next 8, and both of the next 16 bytes of pixels.
    load_matrices(grad_output_ + i * 16 * line_ + depth_ * kDepthBytes, channels_[i]);
  }

  // 16 columns: of each 8 those of the depth's first pixels and of the last.
  template <int kDepth>
  __device__ __forceinline__ void load_columns(int j) {
    if constexpr (kIsFloat) {
      const uint32_t further = depth_ / 2 * row_bytes_ + kDepth * half_bytes_;
#pragma unroll
      for (int k = 0; k < 2 && j * 2 + k < Sums::kColumnBlocks; ++k) {
        loaded_[kDepth][j][k * 2] = load_word(columns_[j * 2 + k] + further);
        loaded_[kDepth][j][k * 2 + 1] = load_word(next_columns_[j * 2 + k] + further);
      }
    } else {
      load_matrices_transposed(columns_[j] + depth_ * row_bytes_, loaded_[kDepth][j]);
    }
  }

  static __device__ __forceinline__ uint32_t load_word(uint32_t at) {
    float value[1];
    load_shared(at, value);
    return __float_as_uint(value[0]);
  }

  template <bool kSumsBias>
  __device__ __forceinline__ void multiply_block(int i, const uint32_t (&columns)[kPairs][4]) {
    if constexpr (kSumsBias) add_to_bias(i);
    implicit_gemm::round_operand<T>(channels_[i]);
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) {
      const uint32_t words[2] = {columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]};
      multiply_add<T>(sums_.of[i][j], channels_[i], words);
    }
  }

  __device__ __forceinline__ void add_to_bias(int i) {
    float (&bias)[2] = sums_.bias[i];
    const uint32_t (&a)[4] = channels_[i];
    if constexpr (kIsFloat) {
      bias[0] += __uint_as_float(a[0]) + __uint_as_float(a[2]);
      bias[1] += __uint_as_float(a[1]) + __uint_as_float(a[3]);
    } else {
      // All columns are ones: a zero would meet other rows' infinities.
      constexpr uint32_t ones[2] = {kOnes<T>, kOnes<T>};
      float four[4] = {bias[0], bias[0], bias[1], bias[1]};
      multiply_add<T>(four, a, ones);
      bias[0] = four[0];
      bias[1] = four[2];
    }
  }

  Sums& sums_;
  int32_t row_bytes_, half_bytes_, line_, rows_;
  uint32_t columns_[kPlaces], next_columns_[kPlaces];
  uint32_t masks_[2][2];
  uint32_t grad_output_;
  int32_t depth_;
  uint32_t channels_[Sums::kRowBlocks][4];
  uint32_t loaded_[2][kPairs][4];
};

}  // namespace haloconv::windows_wgrad
