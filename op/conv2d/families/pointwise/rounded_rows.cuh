// float32 operands of the matrix product: copied as halves, two 16-bit values each, and rounded to
// TF32 where they lie, by the threads that copied them.
#pragma once

#include "conv2d/device/round.cuh"
#include "conv2d/families/pointwise/operand.cuh"

namespace haloconv::pointwise {

// Rows of a chunk that a thread may copy where they are summed.
inline constexpr int kMostPasses = 8;
template <int kRows, int kColumns, int kUnit>
inline constexpr int kPassesOf = kRows * kColumns / (kThreads * kUnit);

__device__ __forceinline__ void store_shared_words(uint32_t at, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}
__device__ __forceinline__ void store_shared_words(uint32_t at, const uint32_t (&words)[2]) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(words[0]), "r"(words[1])
               : "memory");
}
__device__ __forceinline__ void store_shared_words(uint32_t at, const uint32_t (&words)[1]) {
  store_shared_bits(at, words[0]);
}

// Of what copy_rows() copied, kWordsAtOnce words of a thread on their way. With kSums the values,
// not rounded, are added to a sum for each of the thread's rows.
template <int kRows, int kColumns, int kUnit, bool kSums, int kWordsAtOnce>
__device__ __forceinline__ void round_rows(uint32_t to, const Place<kColumns>& place,
                                           float (&sums)[kMostPasses]) {
  constexpr int kStep = kThreads * kUnit / kColumns, kWords = kUnit / 2;
  constexpr int kPasses = kPassesOf<kRows, kColumns, kUnit>;
  constexpr int kBatch = kWordsAtOnce / kWords < 1         ? 1
                         : kWordsAtOnce / kWords < kPasses ? kWordsAtOnce / kWords
                                                           : kPasses;
#pragma unroll
  for (int first = 0; first < kPasses; first += kBatch) {
    const auto at = [&](int pass) {
      return to + swizzled<kRows>(place.row + pass * kStep, place.column);
    };
    uint32_t words[kBatch][kWords];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) load_shared_bits(at(first + i), words[i]);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (uint32_t& word : words[i]) {
        const float value = __uint_as_float(word);
        if constexpr (kSums && kPasses <= kMostPasses) sums[first + i] += value;
        word = round_to_tf32(value);
      }
      store_shared_words(at(first + i), words[i]);
    }
  }
}

// The sums of rows, each of one thread of its threads, which are neighbours: store(row, sum).
template <int kRows, int kColumns, int kUnit, class Store>
__device__ __forceinline__ void store_row_sums(const Place<kColumns>& place,
                                               const float (&sums)[kMostPasses], Store store) {
  constexpr int kStep = kThreads * kUnit / kColumns, kLanes = kColumns / kUnit;
#pragma unroll
  for (int pass = 0; pass < kPassesOf<kRows, kColumns, kUnit>; ++pass) {
    float sum = sums[pass];
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    if (place.column == 0) store(place.row + pass * kStep, sum);
  }
}

}  // namespace haloconv::pointwise
