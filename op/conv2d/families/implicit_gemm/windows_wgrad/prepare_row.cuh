// Makes of a step's rows, as they were brought, what the matrix instruction multiplies.
#pragma once

#include "conv2d/device/round_for_product.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/bias_sums.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::windows_wgrad {

// float32 is rounded where it lies; of 16-bit types the second copy is made. By the threads that
// copy.
template <class T, Tile kTile>
__device__ __forceinline__ void prepare_row(const Arguments& args, uint32_t row) {
  constexpr int32_t kBytes = 16;  // of a thread, at a time
  constexpr int32_t kStep = kTile.copy_threads() * kBytes;
  // Those on the way at once. Of the threads that also multiply, few have more than one.
  constexpr int kAtOnce = kTile.copies_apart ? 3 : 1;
  const int32_t bytes = args.copy_bytes;
  if (sizeof(T) == 2 && args.copies == 1) return;
#pragma unroll 1
  for (int32_t at = copy_thread<kTile>() * kBytes; at < bytes; at += kAtOnce * kStep) {
    uint32_t words[kAtOnce][4], next[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int32_t first = at + k * kStep;
      if (k > 0 && first >= bytes) continue;
      load_shared_bits(row + first, words[k]);
      // Behind a channel's row nothing is read.
      next[k] = 0;
      if (sizeof(T) == 2 && first + kBytes < bytes) load_shared_bits(row + first + kBytes, next[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int32_t first = at + k * kStep;
      if (k > 0 && first >= bytes) continue;
      if constexpr (sizeof(T) == 4) {
        for (uint32_t& word : words[k]) word = round_for_product(word);
        store_unit(row + first, words[k]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[k][i] = __funnelshift_r(words[k][i], i < 3 ? words[k][i + 1] : next[k], 16);
        }
        store_unit(row + bytes + first, words[k]);
      }
    }
  }
}

// Adds a piece of grad_output to the bias's sums, where these are wanted, and rounds it where it is
// float32. A thread has the same 16 bytes of the same channels for both.
template <class T, Tile kTile>
__device__ __forceinline__ void prepare_piece(uint32_t piece, bool sums_bias,
                                              BiasSums<T, kTile>& bias) {
  if constexpr (sizeof(T) == 4) {
    constexpr int kNeighbours = kPieceBytes / 16, kStep = kTile.copy_threads() / kNeighbours;
    const int32_t thread = copy_thread<kTile>();
    const uint32_t at =
        piece + grad_output_place(kTile, thread / kNeighbours, thread % kNeighbours * 16);
    uint32_t words[kTile.rows / kStep][4];
#pragma unroll
    for (int i = 0; i < kTile.rows / kStep; ++i) {
      load_shared_bits(at + i * kStep * grad_output_line(kTile), words[i]);
    }
    if (sums_bias) {
#pragma unroll
      for (int i = 0; i < kTile.rows / kStep; ++i) bias.add_words(i, words[i]);
    }
#pragma unroll
    for (int i = 0; i < kTile.rows / kStep; ++i) {
      for (uint32_t& word : words[i]) word = round_for_product(word);
      store_unit(at + i * kStep * grad_output_line(kTile), words[i]);
    }
  } else if (sums_bias) {
    bias.add(piece);
  }
}

}  // namespace haloconv::windows_wgrad
