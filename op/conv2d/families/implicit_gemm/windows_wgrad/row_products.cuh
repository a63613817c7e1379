// The products of a warp that does nothing else. They are those of mainloop.cuh, but that rows may
// begin left of their bands, and that nothing is copied between them. One class for both would cost
// the other kernels registers, so that 128x256 spills in float16.
#pragma once

#include "conv2d/families/implicit_gemm/windows_wgrad/mainloop.cuh"

namespace haloconv::windows_wgrad {

template <class T, Tile kTile>
class RowProducts {
  using Sums = Sums<kTile>;
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  static constexpr int kDepthBytes = kPieceBytes / kPieceDepths;
  // Of the next depth, loaded before a block of rows is multiplied.
  static constexpr int kColumnsAtOnce =
      (Sums::kColumnBlocks + Sums::kRowBlocks - 1) / Sums::kRowBlocks;

 public:
  // first_shift: row_shift() of the first step.
  __device__ __forceinline__ RowProducts(const Arguments& args, const BlockPosition& at,
                                         const WarpPosition& warp, uint32_t ring,
                                         int32_t first_shift, Sums& sums)
      : args_(args), lane_(warp.lane), ring_(ring), sums_(sums) {
    rows_ = (warp.row + warp.lane % 16) * grad_output_line(kTile) + warp.lane / 16 * 16;
    const Wgrad& g = args.geometry;
    const int32_t last_tap_row = at.last_tap_row(args, kTile);
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) {
      // Columns behind the filter's are not stored: they may have any tap that the rows serve.
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

  // The operands of a piece's first depth.
  __device__ __forceinline__ void load(uint32_t grad_output) {
#pragma unroll
    for (int i = 0; i < Sums::kRowBlocks; ++i) load_rows(i, grad_output);
#pragma unroll
    for (int j = 0; j < Sums::kColumnBlocks; ++j) load_column(j, 0, loaded_[0][j]);
  }

  // Multiplies a piece, of which the words from first_word to end_word exist: the input's others
  // count as zeros. The next one's first operands are loaded, for which it advances by bytes().
  // kExist: all words do, so that no instruction is spent on those that do not.
  template <bool kExist, class Bytes>
  __device__ __forceinline__ void multiply(uint32_t grad_output, uint32_t next_grad_output,
                                           int32_t first_word, int32_t end_word, Bytes bytes) {
#pragma unroll
    for (int depth = 0; depth < kPieceDepths; ++depth) {
      constexpr int kLast = kPieceDepths - 1;
      auto& columns = loaded_[depth % 2];
      if constexpr (!kExist) clear(columns, depth, first_word, end_word);
      if (depth == kLast) advance(bytes());
      const int next = depth == kLast ? 0 : depth + 1;
      const uint32_t rows = depth == kLast ? next_grad_output : grad_output + next * kDepthBytes;
#pragma unroll
      for (int i = 0; i < Sums::kRowBlocks; ++i) {
#pragma unroll
        for (int k = 0; k < kColumnsAtOnce; ++k) {
          const int j = i * kColumnsAtOnce + k;
          if (j < Sums::kColumnBlocks) load_column(j, next, loaded_[next % 2][j]);
        }
        multiply_block(i, columns);
        load_rows(i, rows);
      }
    }
  }

 private:
  __device__ __forceinline__ void load_rows(int i, uint32_t grad_output) {
    // Matrices: 8 rows, the next 8, and both of the next 16 bytes of pixels.
    load_matrices(grad_output + rows_ + i * 16 * grad_output_line(kTile), channels_[i]);
  }

  __device__ __forceinline__ void load_column(int j, int depth, uint32_t (&words)[2]) {
    const uint32_t at = ring_ + columns_[j] + depth * kDepthBytes;
    load_shared_bits(at, words[0]);
    load_shared_bits(at + 16, words[1]);
  }

  // A depth's words that do not exist. A pair of 16-bit pixels does as a whole or not at all, since
  // rows consist of whole words.
  __device__ __forceinline__ void clear(uint32_t (&columns)[Sums::kColumnBlocks][2], int depth,
                                        int32_t first_word, int32_t end_word) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int32_t word = depth * (kDepthBytes / 4) + k * 4 + lane_ % 4;
      const uint32_t mask = word >= first_word && word < end_word ? ~0u : 0;
#pragma unroll
      for (auto& words : columns) words[k] &= mask;
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
  uint32_t channels_[Sums::kRowBlocks][4];
  uint32_t loaded_[2][Sums::kColumnBlocks][2];
};

}  // namespace haloconv::windows_wgrad
