// Sums leave the accumulators for a thread's own place in the workspace, where those of earlier
// rounds wait: the tensor core's own sums truncate.
#pragma once

#include "conv2d/sm90/wgrad/arguments.h"

namespace haloconv::sm90::wgrad {

template <int kSlots, int kWidth>
class PartialSums {
 public:
  __device__ __forceinline__ PartialSums(const Arguments& args, const Block& block, int32_t group,
                                         int32_t thread) {
    const int32_t part = args.part_of(block, group);
    const int32_t row_group = block.group * args.row_groups() + args.row_group_of(block, group);
    const int64_t patch = int64_t{row_group} * args.column_tiles() + block.column_tile;
    sums_ = reinterpret_cast<float4*>(args.partial + part * args.part_floats() +
                                      patch * args.patch_floats()) +
            thread;
    has_row_sums_ = args.bias_partial != nullptr && block.column_tile == 0;
    row_sums_ = args.bias_partial + part * args.bias_floats() + int64_t{row_group} * kRowsOfGroup +
                thread / 32 * 16 + thread % 32 / 4;
    is_first_of_quad_ = thread % 4 == 0;
  }

  // A round's.
  __device__ __forceinline__ void add(const float (&sums)[kSlots][kWidth / 2],
                                      const float (&row_sums)[2]) {
    if (is_first_round_) {
      write<false>(sums, row_sums);
    } else {
      write<true>(sums, row_sums);
    }
    is_first_round_ = false;
  }

 private:
  template <bool kAdd>
  __device__ __forceinline__ void write(const float (&sums)[kSlots][kWidth / 2],
                                        const float (&row_sums)[2]) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        float4& at = sums_[(i * (kWidth / 8) + j) * 128];
        float4 sum = kAdd ? at : float4{0, 0, 0, 0};
        sum.x += sums[i][4 * j];
        sum.y += sums[i][4 * j + 1];
        sum.z += sums[i][4 * j + 2];
        sum.w += sums[i][4 * j + 3];
        at = sum;
      }
    }
    if (!has_row_sums_) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = row_sums[half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      float& at = row_sums_[half * 8];
      if (is_first_of_quad_) at = kAdd ? at + sum : sum;
    }
  }

  float4* sums_;     // (slot, 8 columns, 128 threads)
  float* row_sums_;  // of grad_output, from this thread's first row on
  bool has_row_sums_, is_first_of_quad_;
  bool is_first_round_ = true;
};

}  // namespace haloconv::sm90::wgrad
