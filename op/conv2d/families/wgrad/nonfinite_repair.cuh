// Repairs results near an infinity or NaN. Segments may reach beyond the last row, or beyond the
// end of a row; there zeros stand for the gradient's pixels. If such a zero meets a pixel of the
// input that is not finite, their product is NaN, which the definition does not have. A block
// computes such results once more.
//
// A unit is 16 output channels of 8 columns (taps and input channels): what a warp has of 8
// columns, 128 values that follow each other in a partial. A pixel that is not finite meets the
// zeros of all output channels alike, and affects only the partials whose pixels are near it. So
// only partials that are NaN in all of a unit's channels are computed again.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::wgrad {

inline constexpr int kUnitRows = 16;
inline constexpr int kUnitColumns = 8;
inline constexpr int kUnitFloats = kUnitRows * kUnitColumns;

// One column of a unit. Its rows are passed as bits.
template <class T, int kThreads>
class ColumnRepair {
 public:
  // unit: the number of its first value, of a part.
  __device__ __forceinline__ ColumnRepair(const Arguments& args, int64_t unit, int32_t column)
      : args_(args),
        first_(unit + column / 2 * 4 + column % 2),
        element_(args.element(first_)),
        rows_(min(kUnitRows, args.rows - element_.k % args.rows)) {}

  __device__ __forceinline__ bool exists() const { return element_.exists; }
  __device__ __forceinline__ FilterElement element(int32_t row) const {
    FilterElement of_row = element_;
    of_row.k += row;
    return of_row;
  }

  // The rows that are NaN, all threads' alike.
  template <class ResultOf>
  __device__ __forceinline__ uint32_t nan_rows(ResultOf result_of) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    return __ballot_sync(~0u, lane < rows_ && isnan(result_of(element(min(lane, rows_ - 1)))));
  }

  // Called by a warp. Of the given rows, those that are not NaN over some pixels in the middle of
  // an image: none, if many pixels are not finite.
  __device__ __forceinline__ uint32_t without_nan(uint32_t rows) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t plane = args_.p * args_.q;
    const int32_t pixel = (args_.p / 2 * args_.q + lane) % plane;
    float sums[kUnitRows] = {};
    add_pixel(sums, rows, {0, pixel / args_.q, pixel % args_.q, lane < plane});
    uint32_t left = 0;
#pragma unroll
    for (int row = 0; row < kUnitRows; ++row) {
      if (!isnan(sum_of_warp(sums[row]))) left |= 1u << row;
    }
    return rows & left;
  }

  // Called by a block. One thread calls set(row, sum) for each of the rows whose sum over the
  // output's own pixels is not NaN.
  template <class Body>
  __device__ __forceinline__ void run(uint32_t rows, Body set) const {
    const uint32_t wanted = rows;
    bool is_known = false;  // that zeros make NaN of the column
    const auto row = static_cast<int32_t>(threadIdx.x) % kUnitRows;
    const auto lane_of_partial = static_cast<int32_t>(threadIdx.x) / kUnitRows;
    float partials = 0;  // of the thread's row, those of every kPartialsAtOnce'th part
    float repaired = 0;  // by the first threads, of their rows
#pragma unroll 1
    for (int32_t first = 0; first < args_.partials && rows != 0; first += kPartialsAtOnce) {
      const int32_t index = first + lane_of_partial;
      const float partial = index < args_.partials && row < rows_ ? partial_of(index, row) : 0;
      const uint32_t nan = __ballot_sync(~0u, isnan(partial)) >> lane_of_partial % 2 * kUnitRows;
      const bool is_spoiled = (nan & ((1u << kUnitRows) - 1)) == (1u << rows_) - 1;
      if (!is_spoiled) partials += partial;
      uint32_t spoiled = any_of_block(is_spoiled ? 1u << lane_of_partial : 0);
      if (spoiled != 0 && !is_known) {
        if (!__syncthreads_or(meets_zeros())) return;
        is_known = true;
      }
      for (; spoiled != 0 && rows != 0; spoiled &= spoiled - 1) {
        float sums[kUnitRows] = {};
        add_pixels_of(sums, rows, first + __ffs(static_cast<int32_t>(spoiled)) - 1);
        repaired += sum_of_block(sums);
        const bool is_nan = threadIdx.x < kUnitRows && isnan(repaired);
        rows &= ~any_of_block(is_nan ? 1u << row : 0);
      }
    }
    if (rows == 0) return;
    __shared__ float of_partials[kPartialsAtOnce][kUnitRows];
    of_partials[lane_of_partial][row] = partials;
    __syncthreads();
    if (threadIdx.x >= kUnitRows || (wanted >> row & 1) == 0) return;
    for (const auto& of_part : of_partials) repaired += of_part[row];
    if (!isnan(repaired)) set(row, repaired);
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPartialsAtOnce = kThreads / kUnitRows;
  static_assert(kPartialsAtOnce <= 32 && kUnitRows == 16);

  // Whether a pixel beyond the output meets an input's that is not finite: this thread's share.
  __device__ __forceinline__ int meets_zeros() const {
    // In a row of the output, from its end on those that meet the input.
    const int32_t reach = (args_.w - 1 + args_.pad_left - element_.s * args_.dilation_w);
    const int32_t last = reach < 0 ? 0 : reach / args_.stride_w + 1;
    const int32_t beyond = max(min(args_.segments_of_row * args_.segment, last) - args_.q, 0);
    const int32_t rows_beyond = args_.segment_rows() - args_.p;
    return meets_special(args_.p, 0, beyond, args_.q) ||
           meets_special(rows_beyond, args_.p, args_.q + beyond, 0);
  }

  // Of all images so many rows and columns of the output, from a first on.
  __device__ __forceinline__ bool meets_special(int32_t rows, int32_t first_row, int32_t columns,
                                                int32_t first_column) const {
    const int64_t count = int64_t{args_.images} * rows * columns;
    bool found = false;
    const auto look_at = [&](auto i) {
      const auto line = i / columns;
      const Segment at{static_cast<int32_t>(line / rows),
                       first_row + static_cast<int32_t>(line % rows),
                       first_column + static_cast<int32_t>(i % columns), true};
      found |= isnan(0 * input_of(at));
    };
    if (count <= INT32_MAX - kThreads * 4) {  // divisions of 32 bits are faster
#pragma unroll 4
      for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) look_at(i);
    } else {
#pragma unroll 1
      for (int64_t i = threadIdx.x; i < count; i += kThreads) look_at(i);
    }
    return found;
  }

  __device__ __forceinline__ float partial_of(int32_t index, int32_t row) const {
    return args_.partial[index * args_.partial_floats() + first_ + row % 8 * 16 + row / 8 * 2];
  }

  // A part's pixels, of those that the output has.
  __device__ __forceinline__ void add_pixels_of(float (&sums)[kUnitRows], uint32_t rows,
                                                int32_t index) const {
    const int32_t groups = args_.share == Share::kPixels ? kMathGroups : 1;
    const int32_t split = index / groups, pixels = args_.group_pixels();
    const int32_t first_pixel = args_.first_pixel_of(index % groups);
    const int32_t segments = args_.strips_of(split) * args_.segments;
    const int32_t first_strip = args_.first_strip(split);
    const int64_t count = int64_t{segments} * pixels;
    bool is_nan = false;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < count && !is_nan; i += kThreads) {
      const auto segment = static_cast<int32_t>(i / pixels);
      Segment at = args_.segment_at(first_strip + segment / args_.segments,
                                    segment % args_.segments, args_.segments);
      at.column += first_pixel + static_cast<int32_t>(i % pixels);
      at.exists = at.exists && at.column < args_.q;
      is_nan = add_pixel(sums, rows, at);
    }
  }

  // Adds a pixel's products; returns whether those of all rows are NaN by now.
  __device__ __forceinline__ bool add_pixel(float (&sums)[kUnitRows], uint32_t rows,
                                            const Segment& at) const {
    const float input = input_of(at);
    const T* const gradient = static_cast<const T*>(args_.grad_output) + at.image * args_.output_n +
                              element_.k * args_.output_k + at.row * int64_t{args_.output_p} +
                              at.column;
    uint32_t nan = 0;
#pragma unroll
    for (int row = 0; row < kUnitRows; ++row) {
      const bool wanted = at.exists && (rows >> row & 1) != 0;
      const float value = Element<T>::load(gradient + row * args_.output_k, wanted);
      if (wanted) sums[row] = fmaf(Element<T>::operand(value), input, sums[row]);
      if (isnan(sums[row])) nan |= 1u << row;
    }
    return (rows & ~nan) == 0;
  }

  // What a pixel's tap meets; 0 outside the input.
  __device__ __forceinline__ float input_of(const Segment& at) const {
    const int32_t y = at.row * args_.stride_h - args_.pad_top + element_.r * args_.dilation_h;
    const int32_t x = at.column * args_.stride_w - args_.pad_left + element_.s * args_.dilation_w;
    const int32_t channel = element_.k / args_.rows * args_.channels + element_.c;
    const T* const input = static_cast<const T*>(args_.input) + at.image * args_.input_n +
                           channel * args_.input_c + y * int64_t{args_.input_h} + x;
    const bool inside = at.exists && y >= 0 && y < args_.h && x >= 0 && x < args_.w;
    return Element<T>::operand(Element<T>::load(input, inside));
  }

  static __device__ __forceinline__ float sum_of_warp(float sum) {
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    return sum;
  }

  // The threads' sums of each row, by the threads with the rows' numbers.
  static __device__ __forceinline__ float sum_of_block(const float (&sums)[kUnitRows]) {
    __shared__ float of_warps[kWarps][kUnitRows];
    const auto warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < kUnitRows; ++row) {
      const float sum = sum_of_warp(sums[row]);
      if (lane == row) of_warps[warp][row] = sum;
    }
    __syncthreads();
    float sum = 0;
    if (threadIdx.x < kUnitRows) {
      for (const auto& of_warp : of_warps) sum += of_warp[threadIdx.x];
    }
    __syncthreads();  // the next part's come to the same place
    return sum;
  }

  // Bits that any thread of the block has.
  static __device__ __forceinline__ uint32_t any_of_block(uint32_t bits) {
    __shared__ uint32_t all;
    __syncthreads();  // those of the call before have been read
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    if (bits != 0) atomicOr(&all, bits);
    __syncthreads();
    return all;
  }

  const Arguments& args_;
  const int64_t first_;
  const FilterElement element_;
  const int32_t rows_;
};

// Of a block's results, which its threads have written, those from value `first` to `end`.
template <class T, int kThreads, class ResultOf>
__device__ __forceinline__ void repair_results(const Arguments& args, int64_t first, int64_t end,
                                               ResultOf result_of) {
  constexpr int kMostColumns = 1024 / kUnitRows;  // a bit for each
  __shared__ uint32_t unsure[kMostColumns / 32];
  if (threadIdx.x < kMostColumns / 32) unsure[threadIdx.x] = 0;
  __syncthreads();
  const auto read = [&](const FilterElement& e) { return Element<T>::to_float(result_of(e)); };
  const auto columns = static_cast<int32_t>((end - first) / kUnitRows);
  const auto repair_of = [&](int32_t i) {
    return ColumnRepair<T, kThreads>(args, first + i / kUnitColumns * kUnitFloats,
                                     i % kUnitColumns);
  };
#pragma unroll 1
  for (int32_t i = static_cast<int32_t>(threadIdx.x) / 32; i < columns; i += kThreads / 32) {
    const auto repair = repair_of(i);
    if (!repair.exists()) continue;
    const uint32_t rows = repair.nan_rows(read);
    if (rows == 0 || repair.without_nan(rows) == 0) continue;
    if (threadIdx.x % 32 == 0) atomicOr(&unsure[i / 32], 1u << (i % 32));
  }
  __syncthreads();
#pragma unroll 1
  for (int32_t i = 0; i < columns; ++i) {
    if ((unsure[i / 32] >> (i % 32) & 1) == 0) continue;
    const auto repair = repair_of(i);
    repair.run(repair.nan_rows(read),
               [&](int32_t row, float sum) { result_of(repair.element(row)) = T(sum); });
    __syncthreads();
  }
}

}  // namespace haloconv::wgrad
