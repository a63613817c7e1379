// The weight gradient of filters two columns wide with a stride of 2: paired_arguments.h.
//
// grad_output's part of a chunk, 128 channels of 64 16-bit values, is the matrix instruction's
// operand in shared memory. Of the pairs a thread takes the first or the second elements of
// neighbouring pixels for the operand in registers: each pair is read once for both columns of the
// filter. float32 is rounded to TF32, grad_output's where it lies, while the chunk before is
// multiplied.
#pragma once

#include <cuda/ptx>

#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/families/pointwise/operand.cuh"
#include "conv2d/families/pointwise/paired_arguments.h"
#include "conv2d/families/pointwise/rounded_rows.cuh"
#include "cuda/wgmma.cuh"

namespace haloconv::pointwise {

// The row of the filter and the first channel of a half of the block's rows of pairs.
struct PairedHalf {
  int32_t tap, channel;
  int32_t count;  // channels that exist

  __device__ __forceinline__ PairedHalf(const PairedArguments& args, int32_t index) {
    tap = args.channel_blocks.quotient(index);
    channel = (index - tap * args.channel_blocks.divisor) * kPairedChannels;
    count = tap < args.taps_h ? min(kPairedChannels, args.channels - channel) : 0;
  }
};

// Brings pairs: a thread has 16 bytes of every 16th row.
class PairsLoader {
 public:
  __device__ __forceinline__ PairsLoader(const PairedArguments& args, const void* input,
                                         int32_t thread, int32_t column_tile)
      : args_(args),
        input_(static_cast<const uint16_t*>(input)),
        row_(thread / kUnits),
        unit_(thread % kUnits),
        halves_{PairedHalf(args, 2 * column_tile), PairedHalf(args, 2 * column_tile + 1)} {}

  // Those of grad_output's values from `first` on, to `to`.
  __device__ __forceinline__ void load(uint32_t to, int32_t first) const {
    const int32_t index = first + unit_ * kValues;
    const int32_t image = args_.image.quotient(index);
    const int32_t in_image = index - image * args_.image.divisor;
    const int32_t p = args_.row.quotient(in_image);
    const int32_t in_row = in_image - p * args_.row.divisor;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PairedHalf& of = halves_[half];
      const int32_t h = p * args_.stride_h + of.tap * args_.dilation_h - args_.pad_top;
      const bool exists = index < args_.product.pixels &&
                          static_cast<uint32_t>(h) < static_cast<uint32_t>(args_.height);
      const uint16_t* from = input_ + image * args_.input_n + h * args_.input_h + 2 * in_row +
                             (of.channel + row_) * args_.input_c;
      const int32_t rows = exists ? of.count - row_ : 0;
#pragma unroll
      for (int further = 0; further < kPairedChannels; further += kRows) {
        copy_async_bytes<16>(to + paired_place(half * kPairedChannels + row_ + further, unit_ * 16),
                             from, further < rows ? 16 : 0);
        from += kRows * args_.input_c;
      }
    }
  }

 private:
  static constexpr int kUnits = kDepth * kPairBytes / 16, kValues = kDepth / kUnits;
  static constexpr int kRows = kThreads / kUnits;

  const PairedArguments& args_;
  const uint16_t* const input_;
  const int32_t row_, unit_;
  const PairedHalf halves_[2];
};

// The operands of both columns of the filter for a step of the matrix instruction's depth.
struct PairedOperands {
  uint4 of_column[2];
};

// Takes them from pairs, of rows lane / 4 and eight further of a warp's 16.
template <class T>
class PairsReader {
 public:
  static constexpr int kSteps = kDepth / 16;

  __device__ __forceinline__ explicit PairsReader(int32_t thread)
      : row_(thread / 128 * kPairedChannels + thread % 128 / 32 * 16 + thread % 32 / 4),
        byte_(thread % 4 * 8) {}

  __device__ __forceinline__ PairedOperands read(uint32_t pairs, int step) const {
    const uint32_t first = pairs + paired_place(row_, step * 64 + byte_);
    const uint32_t second = pairs + paired_place(row_, step * 64 + 32 + byte_);
    constexpr uint32_t kEightRows = 8 * kDepth * kPairBytes;
    PairedOperands operands;
    take(first, operands.of_column[0].x, operands.of_column[1].x);
    take(first + kEightRows, operands.of_column[0].y, operands.of_column[1].y);
    take(second, operands.of_column[0].z, operands.of_column[1].z);
    take(second + kEightRows, operands.of_column[0].w, operands.of_column[1].w);
    return operands;
  }

 private:
  // Two words of a row: the pairs of two pixels of 16 bits, or of one of float32.
  static __device__ __forceinline__ void take(uint32_t at, uint32_t& even, uint32_t& odd) {
    uint32_t words[2];
    load_shared_bits(at, words);
    if constexpr (std::is_same_v<T, float>) {
      even = round_to_tf32(__uint_as_float(words[0]));
      odd = round_to_tf32(__uint_as_float(words[1]));
    } else {
      even = __byte_perm(words[0], words[1], 0x5410);
      odd = __byte_perm(words[0], words[1], 0x7632);
    }
  }

  const int32_t row_, byte_;
};

// Adds what a thread brought of grad_output's rows, in 16 bits.
template <class T>
__device__ __forceinline__ void add_rows(uint32_t grads, const Place<kDepth>& place,
                                         float (&sums)[kMostPasses]) {
  constexpr int kUnit = 8, kStep = kThreads * kUnit / kDepth;
#pragma unroll
  for (int pass = 0; pass < kPassesOf<kPairedTile.rows, kDepth, kUnit>; ++pass) {
    uint32_t words[4];
    load_shared_bits(grads + swizzled<kPairedTile.rows>(place.row + pass * kStep, place.column),
                     words);
#pragma unroll
    for (const uint32_t word : words) {
      sums[pass] += Element<T>::value(word, 0) + Element<T>::value(word, 1);
    }
  }
}

template <class T, bool kBias>
__global__ void __launch_bounds__(kThreads, 1)
    pointwise_paired_kernel(const __grid_constant__ PairedArguments args) {
  constexpr bool kRounds = std::is_same_v<T, float>;
  constexpr int kUnit = 8, kRows = kPairedTile.rows, kSteps = PairsReader<T>::kSteps;
  constexpr int kWidth = 64, kInstructions = kRows / kWidth;
  const WgradArguments& product = args.product;

  extern __shared__ unsigned char shared_base[];
  const uint32_t shared = (shared_address(shared_base) + 1023) / 1024 * 1024;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t rows_above = block / product.column_tiles;  // (split, row tile)
  const int32_t column_tile = block % product.column_tiles;
  const int32_t split = rows_above / product.row_tiles;
  const int32_t first_row = rows_above % product.row_tiles * kRows;

  const Place<kDepth> place(thread, kUnit);
  const auto* const grad_output = static_cast<const uint16_t*>(product.grad_output) +
                                  int64_t{first_row + place.row} * product.output_k;
  const PairsLoader pairs(args, product.input, thread, column_tile);
  const int32_t first_chunk = split * product.split_chunks;
  int32_t chunks = min(product.split_chunks, product.chunks - first_chunk);

  using Chunks = Ring<kPairedStages, paired_chunk_bytes()>;
  Chunks loaded(shared), computed(shared), prepared(shared);
  int32_t to_load = chunks, first = first_chunk * kDepth;
  const auto load = [&] {
    const uint32_t stage = loaded.next();
    const Pixel pixel(product.pixels, product.image_pixels, first + place.column);
    copy_rows<kRows, kDepth, kUnit, kUnit>(
        stage, place, grad_output + pixel.image * product.output_n + pixel.in_image,
        product.output_k, product.rows - first_row, pixel.exists);
    pairs.load(stage + paired_grads_bytes(), first);
    first += kDepth;
    --to_load;
  };
  // What this thread brought of grad_output's part of the next chunk is rounded, and summed.
  float row_sums[kMostPasses] = {};
  const auto prepare = [&] {
    const uint32_t stage = prepared.next();
    if constexpr (kRounds) {
      round_rows<kRows, kDepth, kUnit, kBias, 16>(stage, place, row_sums);
    } else if constexpr (kBias) {
      if (column_tile == 0) add_rows<T>(stage, place, row_sums);
    }
  };

#pragma unroll 1
  for (int32_t i = 0; i < kPairedStages - 1; ++i) {
    if (to_load > 0) load();
    commit_copies();
  }
  wait_for_groups<kPairedStages - 2>();
  prepare();
  const PairsReader<T> reader(thread);
  float sums[2][kInstructions][kWidth / 2] = {};
  do {
    // wgmma reads shared memory past the ordinary path.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();  // the chunk is there, and nobody reads the one before it
    const uint32_t stage = computed.next();
    PairedOperands operands[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      operands[i] = reader.read(stage + paired_grads_bytes(), i);
    }
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int j = 0; j < kInstructions; ++j) {
        const uint64_t grads = operand_at<kRows>(stage + j * kWidth * 128 + i * 32);
        wgmma<T, kWidth>(sums[0][j], operands[i].of_column[0], grads, true);
        wgmma<T, kWidth>(sums[1][j], operands[i].of_column[1], grads, true);
      }
    }
    wgmma_commit();
    if (to_load > 0) load();
    commit_copies();
    if (chunks > 1) {
      wait_for_groups<kPairedStages - 2>();
      prepare();
    }
    wgmma_wait<0>();
    // Until here the instructions read these registers.
#pragma unroll
    for (PairedOperands& some : operands) {
      wgmma_settle(some.of_column[0]);
      wgmma_settle(some.of_column[1]);
    }
  } while (--chunks > 0);

  // A thread's sums: rows of pairs, eight apart, of neighbouring channels of grad_output.
  const int32_t half_row = thread % 128 / 32 * 16 + thread % 32 / 4;
  const PairedHalf half(args, 2 * column_tile + warpgroup_of(thread));
  float* const to =
      args.product.partial +
      (int64_t{split} * product.padded_rows + first_row + thread % 4 * 2) * product.padded_columns +
      (half.channel + half_row) * (2 * args.taps_h) + 2 * half.tap;
#pragma unroll
  for (int j = 0; j < kInstructions; ++j) {
    wgmma_settle(sums[0][j]);
    wgmma_settle(sums[1][j]);
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const int32_t row = j * kWidth + i / 4 * 8 + i % 2, channel = i / 2 % 2 * 8;
      if (half_row + channel >= half.count) continue;
      *reinterpret_cast<float2*>(to + int64_t{row} * product.padded_columns +
                                 channel * (2 * args.taps_h)) = {sums[0][j][i], sums[1][j][i]};
    }
  }
  if constexpr (kBias) {
    if (column_tile != 0) return;
    float* const bias_to = product.bias_partial + int64_t{split} * product.padded_rows + first_row;
    store_row_sums<kRows, kDepth, kUnit>(place, row_sums,
                                         [&](int32_t row, float sum) { bias_to[row] = sum; });
  }
}

}  // namespace haloconv::pointwise
