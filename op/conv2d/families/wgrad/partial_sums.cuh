// Adds the accumulators to the partial sums of earlier rounds, in a thread's own place in the
// workspace. Rounds are short because the tensor core truncates its sums.
#pragma once

#include "conv2d/families/wgrad/arguments.h"
#include "cuda/this_thread.cuh"

namespace haloconv::wgrad {

// Used by a math warpgroup. Addresses are recomputed at each use: keeping them from round to round
// would cost the mainloop registers.
template <int kInstructions, int kWidth>
class PartialSums {
 public:
  __device__ __forceinline__ PartialSums(const Arguments& args, const Block& block, int32_t group)
      : args_(args), block_(block), group_(group) {}

  // A round's.
  __device__ __forceinline__ void add(const float (&sums)[kInstructions][kWidth / 2],
                                      const float (&row_sums)[2]) {
    if (is_first_round_) {
      write<false>(sums);
    } else {
      write<true>(sums);
    }
    if (args_.sums_rows(block_, group_)) write_rows(row_sums);
    is_first_round_ = false;
  }

 private:
  __device__ __forceinline__ int32_t row_group() const {
    return block_.group * args_.row_groups() + args_.row_group_of(block_, group_);
  }

  // Results are (instruction, 8 columns, 128 threads).
  template <bool kAdd>
  __device__ __forceinline__ void write(const float (&sums)[kInstructions][kWidth / 2]) const {
    const int64_t fragment = int64_t{row_group()} * args_.column_tiles() + block_.column_tile;
    auto* const first = reinterpret_cast<float4*>(
        args_.partial + args_.partial_index(block_, group_) * args_.partial_floats() +
        fragment * args_.fragment_floats());
    float4* const own =
        first + args_.first_instruction_of(group_) * (kWidth / 8) * 128 + this_thread() % 128;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        float4& at = own[(i * (kWidth / 8) + j) * 128];
        float4 sum = kAdd ? at : float4{0, 0, 0, 0};
        sum.x += sums[i][4 * j];
        sum.y += sums[i][4 * j + 1];
        sum.z += sums[i][4 * j + 2];
        sum.w += sums[i][4 * j + 3];
        at = sum;
      }
    }
  }

  // The sums of grad_output's rows: four threads together have two rows.
  __device__ __forceinline__ void write_rows(const float (&row_sums)[2]) const {
    const uint32_t thread = this_thread() % 128;
    float* const own = args_.bias_partial +
                       args_.partial_index(block_, group_) * args_.bias_floats() +
                       int64_t{row_group()} * kRowsOfGroup + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = row_sums[half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      float& at = own[half * 8];
      if (thread % 4 == 0) at = is_first_round_ ? sum : at + sum;
    }
  }

  const Arguments& args_;
  const Block& block_;
  const int32_t group_;
  bool is_first_round_ = true;
};

}  // namespace haloconv::wgrad
