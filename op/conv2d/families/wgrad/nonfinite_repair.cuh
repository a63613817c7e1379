// Repairs results near an infinity or NaN. Segments may reach beyond the last row, or beyond the
// end of a row; there zeros stand for the gradient's pixels. If such a zero meets a pixel of the
// input that is not finite, their product is NaN, which the definition does not have. A block
// computes such results once more.
//
// A pixel that is not finite meets the zeros of all output channels alike, and affects only the
// partials whose pixels are near it. So only partials that are NaN in all rows of a unit's column
// are computed again.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/column_repair.cuh"
#include "conv2d/families/wgrad/unit.h"

namespace haloconv::wgrad {

// The partial sums of a unit, by a block.
template <class T, int kThreads>
class UnitRepair {
 public:
  using Column = ColumnRepair<T, kThreads>;

  // unit: the number of its first value, of a part.
  __device__ __forceinline__ UnitRepair(const Arguments& args, int64_t unit)
      : args_(args), unit_(unit), first_(args.element(unit)) {}

  template <class ResultOf>
  __device__ __forceinline__ void run(ResultOf result_of) const {
    __shared__ uint32_t doubtful[kUnitColumns];  // rows
    __shared__ float repaired[kUnitColumns][kUnitRows];
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const uint32_t rows = column(thread / 32).doubtful_rows([&](const FilterElement& e) {
      return Element<T>::to_float(result_of(e));
    });
    if (thread % 32 == 0) doubtful[thread / 32] = rows;
    if (thread < kUnitFloats) repaired[thread / kUnitRows][thread % kUnitRows] = 0;
    if (!__syncthreads_or(static_cast<int>(rows != 0))) return;

    float4 sums{};  // of partials that are not spoiled
#pragma unroll 1
    for (int32_t first = 0; first < args_.partials; first += kPartialsAtOnce) {
      __shared__ uint32_t spoiled[kUnitColumns][kSpoiledWords];
      static_assert(kUnitColumns * kSpoiledWords == kThreads);
      (&spoiled[0][0])[thread] = 0;
      __syncthreads();
      const int32_t end = min(first + kPartialsAtOnce, args_.partials);
      add_partials(first, end, spoiled, sums);
      __syncthreads();
#pragma unroll 1
      for (int32_t column = 0; column < kUnitColumns; ++column) {
#pragma unroll 1
        for (int32_t word = 0; first + word * 32 < end && doubtful[column] != 0; ++word) {
          uint32_t parts = spoiled[column][word];
          for (; parts != 0 && doubtful[column] != 0; parts &= parts - 1) {
            const int32_t part = first + word * 32 + __ffs(static_cast<int32_t>(parts)) - 1;
            add_part(column, part, doubtful[column], repaired[column]);
          }
        }
      }
      __syncthreads();  // the next partials' come to the same place
    }
    finish(sums, doubtful, repaired, result_of);
  }

 private:
  __device__ __forceinline__ Column column(int32_t index) const {
    return Column(args_, element_after(args_, first_, 0, index));
  }

  static constexpr int kWarps = kThreads / 32;
  static constexpr int kSpoiledWords = kThreads / kUnitColumns;  // a bit for each partial
  static constexpr int kPartialsAtOnce = kSpoiledWords * 32;

  // Adds partials to a thread's four values, which are a warp's as they lie, but for columns that
  // are NaN in all rows: those become bits of `spoiled`.
  __device__ __forceinline__ void add_partials(int32_t first, int32_t end,
                                               uint32_t (&spoiled)[kUnitColumns][kSpoiledWords],
                                               float4& sums) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t rows = column(0).rows();
    const bool has_first = lane / 4 < rows, has_second = lane / 4 + 8 < rows;
    const uint32_t pair_lanes = 0x11111111u << lane % 4;  // that have the thread's two columns
    const auto* from = reinterpret_cast<const float4*>(args_.partial + unit_) + lane;
#pragma unroll 4
    for (int32_t part = first + static_cast<int32_t>(threadIdx.x) / 32; part < end;
         part += kWarps) {
      const float4 values = from[part * (args_.partial_floats() / 4)];
      const uint32_t even =
          __ballot_sync(~0u, (isnan(values.x) || !has_first) && (isnan(values.z) || !has_second));
      const uint32_t odd =
          __ballot_sync(~0u, (isnan(values.y) || !has_first) && (isnan(values.w) || !has_second));
      const bool even_spoiled = (even & pair_lanes) == pair_lanes;
      const bool odd_spoiled = (odd & pair_lanes) == pair_lanes;
      if (!even_spoiled) {
        sums.x += values.x;
        sums.z += values.z;
      }
      if (!odd_spoiled) {
        sums.y += values.y;
        sums.w += values.w;
      }
      if (lane >= 4) continue;
      const int32_t word = (part - first) / 32;
      const uint32_t bit = 1u << (part - first) % 32;
      if (even_spoiled) atomicOr(&spoiled[lane * 2][word], bit);
      if (odd_spoiled) atomicOr(&spoiled[lane * 2 + 1][word], bit);
    }
  }

  // Adds a spoiled part once more, of the rows in `doubtful`, which those leave that are NaN.
  __device__ __forceinline__ void add_part(int32_t column, int32_t part, uint32_t& doubtful,
                                           float (&repaired)[kUnitRows]) const {
    const Column repair = this->column(column);
    const uint32_t rows = doubtful;
    if (!repair.meets_zeros(part)) {  // then it is rightly NaN
      if (threadIdx.x == 0) doubtful = 0;
      __syncthreads();
      return;
    }
    const float sum = repair.sum_of_part(rows, part);
    if (threadIdx.x < 32) {
      const bool is_row = threadIdx.x < kUnitRows;
      if (is_row) repaired[threadIdx.x] += sum;
      const uint32_t nan = __ballot_sync(~0u, is_row && isnan(repaired[threadIdx.x % kUnitRows]));
      if (threadIdx.x == 0) doubtful = rows & ~nan;
    }
    __syncthreads();
  }

  template <class ResultOf>
  __device__ __forceinline__ void finish(const float4& sums,
                                         const uint32_t (&doubtful)[kUnitColumns],
                                         const float (&repaired)[kUnitColumns][kUnitRows],
                                         ResultOf result_of) const {
    __shared__ float4 of_warps[kWarps][32];
    const auto thread = static_cast<int32_t>(threadIdx.x);
    of_warps[thread / 32][thread % 32] = sums;
    __syncthreads();
    if (thread < kUnitFloats) {
      const int32_t value = thread % 4, lane = thread / 4;
      const int32_t row = lane / 4 + value / 2 * 8, column = lane % 4 * 2 + value % 2;
      float sum = repaired[column][row];
      for (const auto& of_warp : of_warps) sum += (&of_warp[lane].x)[value];
      if ((doubtful[column] >> row & 1) != 0 && !isnan(sum)) {
        result_of(element_after(args_, first_, row, column)) = T(sum);
      }
    }
    __syncthreads();  // the next unit's come to the same places
  }

  const Arguments& args_;
  const int64_t unit_;
  const FilterElement first_;
};

// Of a block's results, which its threads have written, those from value `first` to `end`.
template <class T, int kThreads, class ResultOf>
__device__ __forceinline__ void repair_results(const Arguments& args, int64_t first, int64_t end,
                                               ResultOf result_of) {
#pragma unroll 1
  for (int64_t unit = first; unit < end; unit += kUnitFloats) {
    UnitRepair<T, kThreads>(args, unit).run(result_of);
  }
}

}  // namespace haloconv::wgrad
