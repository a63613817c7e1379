// A warp's products: operands from pieces of grad_output's rows and the ring of input rows, sums in
// registers.
//
// A depth is what one matrix instruction sums, 32 bytes of pixels. While one is multiplied the
// operands of the next are loaded, also those of the next piece's first depth.
#pragma once

#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/mma.cuh"

namespace haloconv::windows_wgrad {

// As the matrix instruction has them: of each 16 rows and 8 columns four.
inline constexpr int kRowBlocks = 4;
template <Tile kTile>
struct Sums {
  static constexpr int kColumnBlocks = kTile.warp_columns() / 8;
  float of[kRowBlocks][kColumnBlocks][4];
};

inline constexpr int kDepthBytes = kPieceBytes / kPieceDepths;

// Which of a piece's pixels exist: the input's others count as zeros.
//
// All, so that no instruction is spent on those that do not.
struct AllPixels {};
// So many, from the first on.
template <class T>
struct FirstPixels {
  int32_t count;

  // Of a lane's two words of a depth, which bits.
  __device__ __forceinline__ uint32_t mask(int depth, int word, int32_t lane) const {
    constexpr int kDepthPixels = kDepthBytes / static_cast<int>(sizeof(T));
    const int32_t pixels = count - depth * kDepthPixels;
    if constexpr (sizeof(T) == 4) {
      return lane % 4 + word * 4 < pixels ? ~0u : 0;
    } else {
      const int32_t left = pixels - lane % 4 * 2 - word * 8;
      return left > 1 ? ~0u : left > 0 ? 0xffff : 0;
    }
  }
};
// Those in the words from `first` to `end`. A pair of 16-bit pixels exists as a whole or not at
// all, since rows consist of whole words.
struct PixelWords {
  int32_t first, end;

  __device__ __forceinline__ uint32_t mask(int depth, int word, int32_t lane) const {
    const int32_t at = depth * (kDepthBytes / 4) + word * 4 + lane % 4;
    return at >= first && at < end ? ~0u : 0;
  }
};

template <class T, Tile kTile>
class Products {
  using Sums = Sums<kTile>;
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  // Of the next depth, loaded before a block of rows is multiplied.
  static constexpr int kColumnsAtOnce = (Sums::kColumnBlocks + kRowBlocks - 1) / kRowBlocks;

 public:
  // first_shift: row_shift() of the first step.
  __device__ __forceinline__ Products(const Arguments& args, const BlockPosition& at,
                                      const WarpPosition& warp, uint32_t ring, int32_t first_shift,
                                      Sums& sums)
      : args_(args), lane_(warp.lane), ring_(ring), sums_(sums) {
    rows_ = grad_output_place(kTile, warp.row + warp.lane % 16, warp.lane / 16 * 16);
    const Wgrad& g = args.geometry;
    const int32_t last_tap_row = at.last_tap_row(args, kTile);
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) {
      // Sums of columns behind the filter's are not read: they may have any tap that the rows
      // serve.
      const int32_t tap = warp.tap_of(j * 8) < g.taps.divisor ? warp.tap_of(j * 8) : at.tap;
      const int32_t tap_row = g.taps_w_div.quotient(tap);
      const int32_t x =
          args.left_columns + (tap - tap_row * g.taps_w) * g.dilation_w;  // of the first pixel
      const int32_t behind = (last_tap_row - tap_row) * g.dilation_h;     // rows
      const int32_t row = behind == 0 ? 0 : args.input_rows - behind;
      const int32_t copy = kIsFloat ? 0 : x % 2;
      const int32_t word = kIsFloat ? x : x / 2;
      columns_[j] = row * args.input_row_bytes + copy * args.copy_bytes +
                    (warp.channel_of(j * 8) + lane_ / 4) * args.line + (word + lane_ % 4) * 4 -
                    first_shift * static_cast<int32_t>(sizeof(T));
    }
    // The last columns meet the ones. These begin where the window's pixels do, so that a step that
    // begins further left stays in their line.
    if (sizeof(T) == 2 && args.bias_is_product && at.sums_bias(args) &&
        warp.has_last_columns(kTile)) {
      columns_[Sums::kColumnBlocks - 1] = args.ones_at + (args.left_columns / 2 + lane_ % 4) * 4 -
                                          first_shift * static_cast<int32_t>(sizeof(T));
    }
  }

  // To the next piece of the step, or the first of the next one, so many bytes further in the ring.
  __device__ __forceinline__ void advance(int32_t bytes) {
#pragma unroll
    for (uint32_t& column : columns_) {
      column += bytes;
      // Before the ring's end the difference is a large number: one instruction, for a comparison
      // and a subtraction that waits for it.
      column = min(column, column - args_.ring_bytes);
    }
  }

  // The same where all steps are alike.
  __device__ __forceinline__ void advance(bool is_last) {
    const int32_t bytes = is_last ? args_.next_row : kPieceBytes;
    advance(bytes);
  }

  // The operands of a piece's first depth.
  __device__ __forceinline__ void load(uint32_t grad_output) {
#pragma unroll
    for (int i = 0; i < kRowBlocks; ++i) load_rows(i, grad_output, 0);
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) load_column(j, 0, loaded_[0][j]);
  }

  // Multiplies a piece, of which `existing` pixels exist. The next one's first operands are loaded,
  // which advances, by what next_piece() says. between(depth) is called after each depth.
  template <class Existing, class NextPiece, class Between>
  __device__ __forceinline__ void multiply(uint32_t grad_output, uint32_t next_grad_output,
                                           Existing existing, NextPiece next_piece,
                                           Between between) {
#pragma unroll
    for (int depth = 0; depth < kPieceDepths; ++depth) {
      constexpr int kLast = kPieceDepths - 1;
      auto& columns = loaded_[depth % 2];
      if constexpr (!std::is_same_v<Existing, AllPixels>) clear(columns, existing, depth);
      if (depth == kLast) advance(next_piece());
      const int next = depth == kLast ? 0 : depth + 1;
      const uint32_t rows = depth == kLast ? next_grad_output : grad_output;
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
#pragma unroll
        for (int k = 0; k < kColumnsAtOnce; ++k) {
          const int j = i * kColumnsAtOnce + k;
          if (j < Sums::kColumnBlocks) load_column(j, next, loaded_[next % 2][j]);
        }
        multiply_block(i, columns);
        load_rows(i, rows, next);
      }
      between(depth);
    }
  }

 private:
  __device__ __forceinline__ void load_rows(int i, uint32_t grad_output, int depth) {
    const int32_t bytes = depth * kDepthBytes;
    const uint32_t rows = kTile.swizzles ? rows_ ^ bytes : rows_ + bytes;
    // Matrices: 8 rows, the next 8, and both of the next 16 bytes of pixels.
    load_matrices(grad_output + rows + i * 16 * grad_output_line(kTile), channels_[i]);
  }

  __device__ __forceinline__ void load_column(int j, int depth, uint32_t (&words)[2]) {
    const uint32_t at = ring_ + columns_[j] + depth * kDepthBytes;
    load_shared_bits(at, words[0]);
    load_shared_bits(at + 16, words[1]);
  }

  // All of a depth but the existing pixels.
  template <class Existing>
  __device__ __forceinline__ void clear(uint32_t (&columns)[Sums::kColumnBlocks][2],
                                        const Existing& existing, int depth) {
    uint32_t masks[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) masks[k] = existing.mask(depth, k, lane_);
#pragma unroll
    for (auto& words : columns) {
#pragma unroll
      for (int k = 0; k < 2; ++k) words[k] &= masks[k];
    }
  }

  __device__ __forceinline__ void multiply_block(
      int i, const uint32_t (&columns)[Sums::kColumnBlocks][2]) {
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) {
      multiply_add<T>(sums_.of[i][j], channels_[i], columns[j]);
    }
  }

  const Arguments& args_;
  int32_t lane_;
  uint32_t ring_, rows_;
  Sums& sums_;
  // This lane's places in the ring, of the next step to be loaded.
  uint32_t columns_[Sums::kColumnBlocks];
  uint32_t channels_[kRowBlocks][4];
  uint32_t loaded_[2][Sums::kColumnBlocks][2];
};

}  // namespace haloconv::windows_wgrad
