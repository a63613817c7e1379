// A warp's products: operands from a stage, sums in registers.
//
// The sum runs over pixels, which lie apart in a stage: 16-bit operands are transposed as they are
// loaded, those of float32 loaded word by word.
#pragma once

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/families/implicit_gemm_wgrad/loader.cuh"
#include "cuda/mma.cuh"

namespace haloconv::implicit_gemm_wgrad {

// As the matrix instruction has them: of each 16 rows and 8 columns four. The bias gradient, of the
// same two rows: of 16-bit types the instruction sums it, and each thread of a quad has all of it;
// of float32, which is not rounded for it, each has a part.
template <int kIndex>
struct Sums {
  static constexpr int kRowBlocks = kTiles[kIndex].warp_rows / 16;
  static constexpr int kColumnBlocks = kTiles[kIndex].warp_columns / 8;
  float of[kRowBlocks][kColumnBlocks][4];
  float bias[kRowBlocks][2];
};

// A warp's share of a tile, by its first row and column.
struct WarpPosition {
  int32_t row, column, lane;

  __device__ __forceinline__ WarpPosition(const Tile& tile, int32_t thread)
      : row(thread / 32 / tile.warps_along_columns() * tile.warp_rows),
        column(thread / 32 % tile.warps_along_columns() * tile.warp_columns),
        lane(thread % 32) {}
};

// A word of two ones.
template <class T>
inline constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;

__device__ __forceinline__ uint32_t load_word(uint32_t at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
  return __float_as_uint(value);
}

template <class T, int kIndex>
class Multiplier {
  static constexpr Tile kTile = kTiles[kIndex];
  using Sums = implicit_gemm_wgrad::Sums<kIndex>;
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  static constexpr int kPixels = step_pixels(sizeof(T));
  static constexpr int kDepth = kIsFloat ? 8 : 16;  // pixels of a product
  static constexpr int kRowPitch = kTile.rows * sizeof(T);
  static constexpr int kColumnPitch = kTile.columns * sizeof(T);

 public:
  __device__ __forceinline__ explicit Multiplier(const WarpPosition& at) {
    constexpr int kUnitElements = kUnitBytes / sizeof(T);
    const int32_t row_unit = at.row / kUnitElements;
    const int32_t column_unit = at.column / kUnitElements;
    const int32_t lane = at.lane;
    if constexpr (kIsFloat) {
      const int32_t word = lane / 4 % 4 * 4;
      rows_ = place_of_unit(lane % 4, row_unit + lane / 16, kRowPitch, sizeof(T)) + word;
      columns_ = place_of_unit(lane % 4, column_unit + lane / 16, kColumnPitch, sizeof(T)) + word;
    } else {
      // Matrices of a: 8 rows, the next 8, and both of the next 8 pixels. Of b: 8 columns, these of
      // the next 8 pixels, and both of the next 8 columns.
      rows_ =
          place_of_unit(lane / 16 * 8 + lane % 8, row_unit + lane / 8 % 2, kRowPitch, sizeof(T));
      columns_ = place_of_unit(lane / 8 % 2 * 8 + lane % 8, column_unit + lane / 16, kColumnPitch,
                               sizeof(T));
    }
    columns_ += kPixels * kRowPitch;
  }

  // The products of kCount depths of a stage, from the first one on.
  template <int kCount>
  __device__ __forceinline__ void add(uint32_t stage, int first_depth, bool sums_bias,
                                      Sums& sums) const {
#pragma unroll
    for (int depth = first_depth; depth < first_depth + kCount; ++depth) {
      const int first = depth * kDepth;
      uint32_t a[Sums::kRowBlocks][4];
      uint32_t b[Sums::kColumnBlocks / 2][4];
      load_rows(stage + first * kRowPitch, a);
      load_columns(stage + first * kColumnPitch, b);
      if (sums_bias) add_to_bias(a, sums);
#pragma unroll
      for (auto& words : a) round_operand<T>(words);
#pragma unroll
      for (auto& words : b) round_operand<T>(words);
#pragma unroll
      for (int i = 0; i < Sums::kRowBlocks; ++i) multiply_add<T>(sums.of[i], a[i], b);
    }
  }

 private:
  static __device__ __forceinline__ void add_to_bias(const uint32_t (&a)[Sums::kRowBlocks][4],
                                                     Sums& sums) {
#pragma unroll
    for (int i = 0; i < Sums::kRowBlocks; ++i) {
      float (&bias)[2] = sums.bias[i];
      if constexpr (kIsFloat) {
        bias[0] += __uint_as_float(a[i][0]) + __uint_as_float(a[i][2]);
        bias[1] += __uint_as_float(a[i][1]) + __uint_as_float(a[i][3]);
      } else {
        constexpr uint32_t ones[2] = {kOnes<T>, kOnes<T>};
        float four[4] = {bias[0], bias[0], bias[1], bias[1]};
        multiply_add<T>(four, a[i], ones);
        bias[0] = four[0];
        bias[1] = four[2];
      }
    }
  }

  // Units' numbers that differ in a bit have places that do.
  __device__ __forceinline__ void load_rows(uint32_t stage,
                                            uint32_t (&a)[Sums::kRowBlocks][4]) const {
#pragma unroll
    for (int i = 0; i < Sums::kRowBlocks; ++i) {
      if constexpr (kIsFloat) {
        // 16 rows are four units, of which 8 units have places that differ in their bits.
        const uint32_t at = stage + (rows_ ^ i % 2 * 4 * kUnitBytes) + i / 2 * 8 * kUnitBytes;
        const uint32_t next = stage + (rows_ ^ (i % 2 * 4 + 2) * kUnitBytes) +
                              i / 2 * 8 * kUnitBytes;  // 8 rows further
        a[i][0] = load_word(at);
        a[i][1] = load_word(next);
        a[i][2] = load_word(at + 4 * kRowPitch);
        a[i][3] = load_word(next + 4 * kRowPitch);
      } else {
        load_matrices_transposed(stage + (rows_ ^ i * 2 * kUnitBytes), a[i]);
      }
    }
  }

  __device__ __forceinline__ void load_columns(uint32_t stage,
                                               uint32_t (&b)[Sums::kColumnBlocks / 2][4]) const {
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks / 2; ++j) {
      if constexpr (kIsFloat) {
        const uint32_t at = stage + (columns_ ^ j % 2 * 4 * kUnitBytes) + j / 2 * 8 * kUnitBytes;
        const uint32_t next = stage + (columns_ ^ (j % 2 * 4 + 2) * kUnitBytes) +
                              j / 2 * 8 * kUnitBytes;  // 8 columns further
        b[j][0] = load_word(at);
        b[j][1] = load_word(at + 4 * kColumnPitch);
        b[j][2] = load_word(next);
        b[j][3] = load_word(next + 4 * kColumnPitch);
      } else {
        load_matrices_transposed(stage + (columns_ ^ j * 2 * kUnitBytes), b[j]);
      }
    }
  }

  uint32_t rows_, columns_;  // this lane's places, in a stage
};

}  // namespace haloconv::implicit_gemm_wgrad
