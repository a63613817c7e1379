// A warp's part of a warpgroup's products of steps whose zeros meet an infinity or NaN
// (row_ends.cuh). Its operands pass through registers, where zeros take the place of pixels of the
// input that grad_output has not. Its sums lie as those of the warpgroup's instruction.
#pragma once

#include "conv2d/families/channels_last_wgrad/row_ends.cuh"
#include "cuda/mma.cuh"

namespace haloconv::sm90::channels_last_wgrad {

// nvcc 12.4 fails with an internal error on an alias without the struct.
template <Tile kTile>
struct SumsOf {
  using Type = float[kTile.instructions][kTile.n() / 2];
};
template <class T, Tile kTile>
using Sums = typename SumsOf<kTile>::Type;

// Sums of grad_output for the bias, of the products with ones: all columns are the same.
using BiasSums = float[4];

template <class T, class Args, Tile kTile, bool kSumsBias>
class RowEndProducts {
 public:
  __device__ __forceinline__ explicit RowEndProducts(const Args& args) : args_(args) {}

  // Of operands that begin at the addresses a and b.
  __device__ __forceinline__ void add_to(Sums<T, kTile>& sums, BiasSums& bias,
                                         const PatchExtent& extent, SpoiledSteps spoiled,
                                         uint32_t a, uint32_t b) const {
#pragma unroll 1
    for (int32_t i = 0; spoiled != 0; ++i, spoiled >>= 1) {
      if ((spoiled & 1) == 0) continue;
      if constexpr (Args::kOutputRows) {
        add_step(sums, bias, extent, (extent.groups - 1) / 2 * 2, a + i * kRowColumns * 64 * 2,
                 b + i * args_.row_bytes);
      } else {
        add_step(sums, bias, extent, 2 * i, a, b);
      }
    }
  }

 private:
  static constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;
  static constexpr int32_t kPixelBytes = 2 * kTile.width;
  static constexpr int kSixteensOfInstruction = kTile.n() / 16;  // columns
  static constexpr int kSixteens = kTile.instructions * kSixteensOfInstruction;
  // Loads that are on their way, for which the most sums leave few registers.
  static constexpr int kTogether = kTile.quads() > 32   ? 2
                                   : kSixteens % 4 == 0 ? 4
                                   : kSixteens % 3 == 0 ? 3
                                                        : 2;
  static_assert(kSixteens % kTogether == 0);

  // Where the copy engine puts what would lie at an address, in boxes of rows of so many bytes.
  template <int32_t kRowBytes>
  static __device__ __forceinline__ uint32_t swizzled(uint32_t address) {
    return address ^ (address >> 7 & (kRowBytes / 16 - 1)) << 4;
  }

  // Two groups of pixels, from `group` on.
  __device__ __forceinline__ void add_step(Sums<T, kTile>& sums, BiasSums& bias,
                                           const PatchExtent& extent, int32_t group, uint32_t a,
                                           uint32_t b) const {
    // What follows from the thread is not worth registers outside of this.
    auto thread = static_cast<int32_t>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    const int32_t lane = thread % 32;
    uint32_t rows[4];
    load_rows(a, group, thread % 128 / 32 * 16, lane, rows);
    if constexpr (kSumsBias) multiply_add<T>(bias, rows, {kOnes, kOnes});
    const uint32_t first = mask_of(group, lane, extent), second = mask_of(group + 1, lane, extent);
    const uint32_t at =
        b + (group + lane / 8 % 2) * args_.group_bytes + lane % 8 * kPixelBytes + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < kSixteens; i += kTogether) {
      uint32_t columns[kTogether][4];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) load_columns(at, i + j, columns[j]);
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const auto& words = columns[j];
        float (&to)[kTile.n() / 2] = sums[(i + j) / kSixteensOfInstruction];
        const int first_sum = (i + j) % kSixteensOfInstruction * 8;
        multiply_add<T>(reinterpret_cast<float (&)[4]>(to[first_sum]), rows,
                        {words[0] & first, words[1] & second});
        multiply_add<T>(reinterpret_cast<float (&)[4]>(to[first_sum + 4]), rows,
                        {words[2] & first, words[3] & second});
      }
    }
  }

  // Of the input, 16 of the tile's columns, by their number; `at`: where the thread begins.
  __device__ __forceinline__ void load_columns(uint32_t at, int sixteen,
                                               uint32_t (&columns)[4]) const {
    constexpr int kSixteensOfChunk = kTile.width / 16;
    const int chunk = sixteen / kSixteensOfChunk % kTile.chunks;
    at += sixteen / kSixteensOfInstruction * args_.axes.instruction.bytes +
          chunk * args_.axes.chunk.bytes + sixteen % kSixteensOfChunk * 32;
    load_matrices_transposed(swizzled<kPixelBytes>(at), columns);
  }

  // Of grad_output, 16 channels of two groups.
  __device__ __forceinline__ void load_rows(uint32_t a, int32_t group, int32_t first_channel,
                                            int32_t lane, uint32_t (&rows)[4]) const {
    const int32_t second = lane / 16, channel = first_channel + lane / 8 % 2 * 8;
    if constexpr (Args::kOutputRows) {
      load_matrices(swizzled<128>(a + (channel + lane % 8) * 128 + (group + second) * 16), rows);
    } else {
      load_matrices_transposed(
          swizzled<128>(a + ((group + second) * 8 + lane % 8) * 128 + channel * 2), rows);
    }
  }

  // The bits of a thread's two pixels of a group that grad_output has.
  __device__ __forceinline__ uint32_t mask_of(int32_t group, int32_t lane,
                                              const PatchExtent& extent) const {
    if (group >= extent.groups) return 0;
    const int32_t pixel = lane % 4 * 2 + (Args::kOutputRows ? group * 8 : 0);
    const int32_t left = args_.row_ends.first - pixel;
    return left >= 2 ? ~0U : left == 1 ? 0xffff : 0;
  }

  const Args& args_;
};

}  // namespace haloconv::sm90::channels_last_wgrad
