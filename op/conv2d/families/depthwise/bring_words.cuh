// Words of a block on their way from global to shared memory.
#pragma once

#include <cstdint>

#include "conv2d/families/depthwise/bring.cuh"

namespace haloconv::depthwise {

// Where a word comes from, if it is inside.
struct WordPlace {
  const void* from;
  bool inside;
};

// So many words, shared among the block's threads, the i-th from place_of(i). Words of 2 bytes pass
// through registers, kAtOnce of a thread at a time, since it waits until they have come.
template <int kUnrolled, int kAtOnce, class Word, class PlaceOf>
__device__ __forceinline__ void bring_words(Word* to, int32_t words, PlaceOf place_of) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto threads = static_cast<int32_t>(blockDim.x);
  if constexpr (sizeof(Word) >= 4) {
#pragma unroll kUnrolled
    for (int32_t i = thread; i < words; i += threads) {
      const WordPlace place = place_of(i);
      bring<Word>(to + i, place.from, place.inside);
    }
  } else {
#pragma unroll 1
    for (int32_t first = thread; first < words; first += kAtOnce * threads) {
      Word some[kAtOnce] = {};
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int32_t i = first + j * threads;
        const WordPlace place = place_of(i);
        if (i < words && place.inside) some[j] = *static_cast<const Word*>(place.from);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int32_t i = first + j * threads;
        if (i < words) to[i] = some[j];
      }
    }
  }
}

}  // namespace haloconv::depthwise
