// The weight gradient of filters two to four columns wide with a stride of 2: paired_arguments.h.
//
// grad_output's part of a chunk, of 64 16-bit values a channel, is the matrix instruction's operand
// in shared memory. Of the pairs a thread takes the elements that a column of the filter meets for
// the operand in registers, for all columns at once. float32 is rounded to TF32, grad_output's
// where it lies, while the chunk before is multiplied.
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

// Brings pairs: a thread has 16 bytes of every 16th row and, with kNeighbours, those before or
// after the chunk's of one row.
template <bool kNeighbours>
class PairsLoader {
 public:
  __device__ __forceinline__ PairsLoader(const PairedArguments& args, const void* input,
                                         int32_t thread, int32_t column_tile)
      : args_(args),
        input_(static_cast<const uint16_t*>(input)),
        row_(thread / kUnits),
        unit_(thread % kUnits),
        beside_row_(thread / 2),
        is_after_(thread % 2),
        halves_{PairedHalf(args, 2 * column_tile), PairedHalf(args, 2 * column_tile + 1)},
        beside_(args, 2 * column_tile + beside_row_ / kPairedChannels) {}

  // Those of grad_output's values from `first` on, to `to`.
  __device__ __forceinline__ void load(uint32_t to, int32_t first) const {
    const int32_t index = first + unit_ * kValues;
    const Row at(args_, index);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PairedHalf& of = halves_[half];
      const bool exists = index < args_.product.pixels && has(at, of, 2 * at.in_row);
      const uint16_t* from = source(at, of, 2 * at.in_row) + row_ * args_.input_c;
      const int32_t rows = exists ? of.count - row_ : 0;
#pragma unroll
      for (int further = 0; further < kPairedChannels; further += kRows) {
        copy_async_bytes<16>(to + paired_place(half * kPairedChannels + row_ + further, unit_ * 16),
                             from, further < rows ? 16 : 0);
        from += kRows * args_.input_c;
      }
    }
    if constexpr (kNeighbours) load_beside(to, first);
  }

 private:
  static constexpr int kUnits = kDepth * kPairBytes / 16, kValues = kDepth / kUnits;
  static constexpr int kRows = kThreads / kUnits;
  static constexpr int kUnitValues = 8, kChunkValues = 2 * kDepth;  // of the input

  // A row of an image of grad_output, and where in it a value lies.
  struct Row {
    int32_t image, p, in_row;

    __device__ __forceinline__ Row(const PairedArguments& args, int32_t index)
        : image(args.image.quotient(index)) {
      const int32_t in_image = index - image * args.image.divisor;
      p = args.row.quotient(in_image);
      in_row = in_image - p * args.row.divisor;
    }
  };

  __device__ __forceinline__ int32_t input_row(const Row& at, const PairedHalf& of) const {
    return at.p * args_.stride_h + of.tap * args_.dilation_h - args_.pad_top;
  }
  // Whether the input has the 16 bytes that begin at a value of the row.
  __device__ __forceinline__ bool has(const Row& at, const PairedHalf& of, int32_t value) const {
    return static_cast<uint32_t>(input_row(at, of)) < static_cast<uint32_t>(args_.height) &&
           static_cast<uint32_t>(value) < static_cast<uint32_t>(args_.width);
  }
  __device__ __forceinline__ const uint16_t* source(const Row& at, const PairedHalf& of,
                                                    int32_t value) const {
    return input_ + at.image * args_.input_n + input_row(at, of) * args_.input_h +
           of.channel * args_.input_c + value;
  }

  // A chunk lies in one row.
  __device__ __forceinline__ void load_beside(uint32_t to, int32_t first) const {
    const Row at(args_, first);
    const int32_t value = 2 * at.in_row + (is_after_ ? kChunkValues : -kUnitValues);
    const int32_t row = beside_row_ % kPairedChannels;
    const bool exists = row < beside_.count && has(at, beside_, value);
    copy_async_bytes<16>(to + paired_place(beside_row_, is_after_ ? kDepth * kPairBytes : -16),
                         source(at, beside_, value) + row * args_.input_c, exists ? 16 : 0);
  }

  const PairedArguments& args_;
  const uint16_t* const input_;
  const int32_t row_, unit_, beside_row_, is_after_;
  const PairedHalf halves_[2], beside_;
};

// The operands of all columns of the filter for a step of the matrix instruction's depth.
template <int kTaps>
struct PairedOperands {
  uint4 of_column[kTaps];
};

// Takes them from pairs, of rows lane / 4 and eight further of a warp's 16.
template <class T, int kTaps, int kPadLeft>
class PairsReader {
 public:
  static constexpr int kSteps = kDepth / 16;

  __device__ __forceinline__ explicit PairsReader(int32_t thread)
      : row_(thread / 128 * kPairedChannels + thread % 128 / 32 * 16 + thread % 32 / 4),
        byte_(thread % 4 * 8) {}

  __device__ __forceinline__ PairedOperands<kTaps> read(uint32_t pairs, int step) const {
    constexpr uint32_t kEightRows = 8 * kPairedPitch, kHalfOfDepth = 32;
    const uint32_t first = pairs + paired_place(row_, step * 2 * kHalfOfDepth + byte_);
    PairedOperands<kTaps> operands;
    const auto take = [&](uint32_t at, uint32_t uint4::* part) {
      uint32_t words[kTaps];
      read_columns(at, words);
#pragma unroll
      for (int s = 0; s < kTaps; ++s) operands.of_column[s].*part = words[s];
    };
    take(first, &uint4::x);
    take(first + kEightRows, &uint4::y);
    take(first + kHalfOfDepth, &uint4::z);
    take(first + kHalfOfDepth + kEightRows, &uint4::w);
    return operands;
  }

 private:
  // What each column of the filter meets: of two pixels of 16 bits, or of one of float32, whose
  // pairs are two words of a row. Elements count from the first of these words.
  static __device__ __forceinline__ void read_columns(uint32_t at, uint32_t (&columns)[kTaps]) {
    uint32_t own[2], before = 0, after = 0;
    load_shared_bits(at, own);
    if constexpr (kPadLeft > 0) load_shared_bits(at - 4, before);
    if constexpr (kTaps - kPadLeft > 2) load_shared_bits(at + 8, after);
    const uint32_t words[] = {before, own[0], own[1], after};
#pragma unroll
    for (int s = 0; s < kTaps; ++s) {
      const int element = s - kPadLeft;
      if constexpr (std::is_same_v<T, float>) {
        columns[s] = round_to_tf32(__uint_as_float(words[element + 1]));
      } else {
        const int word = (element + 2) / 2;
        columns[s] = __byte_perm(words[word], words[word + 1], element % 2 == 0 ? 0x5410 : 0x7632);
      }
    }
  }

  const int32_t row_, byte_;
};

// Adds what a thread brought of grad_output's kRows rows, in 16 bits.
template <class T, int kRows>
__device__ __forceinline__ void add_rows(uint32_t grads, const Place<kDepth>& place,
                                         float (&sums)[kMostPasses]) {
  constexpr int kUnit = 8, kStep = kThreads * kUnit / kDepth;
#pragma unroll
  for (int pass = 0; pass < kPassesOf<kRows, kDepth, kUnit>; ++pass) {
    uint32_t words[4];
    load_shared_bits(grads + swizzled<kRows>(place.row + pass * kStep, place.column), words);
#pragma unroll
    for (const uint32_t word : words) {
      sums[pass] += Element<T>::value(word, 0) + Element<T>::value(word, 1);
    }
  }
}

template <class T, int kTaps, int kPadLeft, bool kBias>
__global__ void __launch_bounds__(kThreads, 1)
    pointwise_paired_kernel(const __grid_constant__ PairedArguments args) {
  using Reader = PairsReader<T, kTaps, kPadLeft>;
  constexpr bool kRounds = std::is_same_v<T, float>;
  constexpr int kUnit = 8, kRows = paired_channels(kTaps), kSteps = Reader::kSteps;
  constexpr int kWidth = 64, kInstructions = kRows / kWidth;
  constexpr int kGradsBytes = paired_grads_bytes(kTaps);
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
  const PairsLoader<(kTaps > 2)> pairs(args, product.input, thread, column_tile);
  const int32_t first_chunk = split * product.split_chunks;
  int32_t chunks = min(product.split_chunks, product.chunks - first_chunk);

  using Chunks = Ring<kPairedStages, paired_chunk_bytes(kTaps)>;
  Chunks loaded(shared), computed(shared), prepared(shared);
  int32_t to_load = chunks, first = first_chunk * kDepth;
  const auto load = [&] {
    const uint32_t stage = loaded.next();
    const Pixel pixel(product.pixels, product.image_pixels, first + place.column);
    copy_rows<kRows, kDepth, kUnit, kUnit>(
        stage, place, grad_output + pixel.image * product.output_n + pixel.in_image,
        product.output_k, product.rows - first_row, pixel.exists);
    pairs.load(stage + kGradsBytes, first);
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
      if (column_tile == 0) add_rows<T, kRows>(stage, place, row_sums);
    }
  };

#pragma unroll 1
  for (int32_t i = 0; i < kPairedStages - 1; ++i) {
    if (to_load > 0) load();
    commit_copies();
  }
  wait_for_groups<kPairedStages - 2>();
  prepare();
  const Reader reader(thread);
  float sums[kTaps][kInstructions][kWidth / 2] = {};
  do {
    // wgmma reads shared memory past the ordinary path.
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();  // the chunk is there, and nobody reads the one before it
    const uint32_t stage = computed.next();
    PairedOperands<kTaps> operands[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) operands[i] = reader.read(stage + kGradsBytes, i);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int j = 0; j < kInstructions; ++j) {
        const uint64_t grads = operand_at<kRows>(stage + j * kWidth * 128 + i * 32);
#pragma unroll
        for (int s = 0; s < kTaps; ++s) {
          wgmma<T, kWidth>(sums[s][j], operands[i].of_column[s], grads, true);
        }
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
    for (PairedOperands<kTaps>& some : operands) {
#pragma unroll
      for (uint4& words : some.of_column) wgmma_settle(words);
    }
  } while (--chunks > 0);

  // A thread's sums: rows of pairs, eight apart, of neighbouring channels of grad_output.
  const int32_t half_row = thread % 128 / 32 * 16 + thread % 32 / 4;
  const PairedHalf half(args, 2 * column_tile + warpgroup_of(thread));
  float* const to =
      product.partial +
      (int64_t{split} * product.padded_rows + first_row + thread % 4 * 2) * product.padded_columns +
      (half.channel + half_row) * (kTaps * args.taps_h) + kTaps * half.tap;
  wgmma_settle(sums);
#pragma unroll
  for (int j = 0; j < kInstructions; ++j) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const int32_t row = j * kWidth + i / 4 * 8 + i % 2, channel = i / 2 % 2 * 8;
      if (half_row + channel >= half.count) continue;
      float* const of_filter =
          to + int64_t{row} * product.padded_columns + channel * (kTaps * args.taps_h);
#pragma unroll
      for (int s = 0; s < kTaps; ++s) of_filter[s] = sums[s][j][i];
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
