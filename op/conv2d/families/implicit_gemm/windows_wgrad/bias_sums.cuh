// The bias gradient: sums of grad_output's rows. Where a tile has columns behind the filter's, the
// matrix instruction makes them, as products with ones; else the threads that copy.
#pragma once

#include <type_traits>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/implicit_gemm/windows_wgrad/position.cuh"
#include "cuda/store_unit.cuh"

namespace haloconv::windows_wgrad {

// Lays the ones in each row of the ring, by all threads of a block. No copy goes there.
template <class T>
__device__ __forceinline__ void write_ones(const Arguments& args, uint32_t ring) {
  constexpr uint32_t kOnes = std::is_same_v<T, __half> ? 0x3c003c00 : 0x3f803f80;
  constexpr uint32_t kUnit[4] = {kOnes, kOnes, kOnes, kOnes};
  const int32_t units = args.line / 16;
  for (auto i = static_cast<int32_t>(this_thread()); i < args.input_rows * units;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t row = i / units;
    store_unit(ring + row * args.input_row_bytes + args.ones_at + (i - row * units) * 16, kUnit);
  }
}

// The sum of a word's values.
template <class T>
__device__ __forceinline__ float sum_of_word(uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&word));
    return two.x + two.y;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(word << 16) + __uint_as_float(word & 0xffff0000);
  } else {
    return __uint_as_float(word);
  }
}

// A thread has 16 bytes of every so many'th channel: eight neighbours have a channel's.
template <class T, Tile kTile>
class BiasSums {
  static constexpr int kNeighbours = kPieceBytes / 16, kStep = kTile.copy_threads() / kNeighbours;
  static constexpr int kChannels = kTile.rows / kStep;

 public:
  __device__ __forceinline__ void add(uint32_t piece) {
    const int32_t thread = copy_thread<kTile>();
    const uint32_t at =
        piece + grad_output_place(kTile, thread / kNeighbours, thread % kNeighbours * 16);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      uint32_t words[4];
      load_shared_bits(at + i * kStep * grad_output_line(kTile), words);
      add_words(i, words);
    }
  }

  // The 16 bytes of one of its channels.
  __device__ __forceinline__ void add_words(int i, const uint32_t (&words)[4]) {
    sums_[i] += (sum_of_word<T>(words[0]) + sum_of_word<T>(words[1])) +
                (sum_of_word<T>(words[2]) + sum_of_word<T>(words[3]));
  }

  // Adds the sums to what was left in the workspace, unless they are the first, and clears them.
  __device__ __forceinline__ void add_to_partial(const Arguments& args, const BlockPosition& at,
                                                 bool is_first) {
    const Wgrad& g = args.geometry;
    const int32_t thread = copy_thread<kTile>();
    const int32_t row = at.row + thread / kNeighbours;
    float* to =
        args.partial + args.bias_at + at.split * args.all_rows() + int64_t{at.group} * g.rows + row;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
#pragma unroll
      for (int distance = 1; distance < kNeighbours; distance *= 2) {
        sums_[i] += __shfl_xor_sync(~0u, sums_[i], distance);
      }
      if (thread % kNeighbours == 0 && row + i * kStep < g.rows) {
        *to = is_first ? sums_[i] : *to + sums_[i];
      }
      to += kStep;
      sums_[i] = 0;
    }
  }

 private:
  float sums_[kChannels] = {};
};

}  // namespace haloconv::windows_wgrad
