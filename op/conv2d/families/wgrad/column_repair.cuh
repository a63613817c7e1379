// One column of a unit, whose sums are computed once more: nonfinite_repair.cuh says why.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/unit.h"

namespace haloconv::wgrad {

// Its rows are passed as bits.
template <class T, int kThreads>
class ColumnRepair {
 public:
  // first: the element of its first row.
  __device__ __forceinline__ ColumnRepair(const Arguments& args, const FilterElement& first)
      : args_(args), element_(first) {}

  __device__ __forceinline__ FilterElement element(int32_t row) const {
    FilterElement of_row = element_;
    of_row.k += row;
    return of_row;
  }
  // How many of the unit's rows the filter has.
  __device__ __forceinline__ int32_t rows() const {
    return min(kUnitRows, args_.rows - element_.k % args_.rows);
  }

  // Called by a warp. The rows that are NaN, but not for some pixels in the middle of an image:
  // none if many pixels are not finite.
  template <class ResultOf>
  __device__ __forceinline__ uint32_t doubtful_rows(ResultOf result_of) const {
    // Of each half of the warp, whose lanes have a row each; so many at once.
    constexpr int32_t kPixels = 16, kTogether = 4;
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t row = lane % kUnitRows;
    const bool is_nan =
        element_.exists && row < rows() && isnan(result_of(element(min(row, rows() - 1))));
    if (__ballot_sync(~0u, is_nan) == 0) return 0;
    const int32_t pixel =
        (args_.p / 2 * args_.q + lane / kUnitRows * kPixels) % (args_.p * args_.q);
    Segment at = {0, pixel / args_.q, pixel % args_.q, is_nan};
    float sum = 0;
#pragma unroll 1
    for (int32_t first = 0; first < kPixels; first += kTogether) {
#pragma unroll
      for (int32_t i = 0; i < kTogether; ++i) {
        const float gradient = Element<T>::load(gradient_at(at) + row * args_.output_k, is_nan);
        sum = fmaf(Element<T>::operand(gradient), input_of(at), sum);
        if (++at.column == args_.q) {
          at.column = 0;
          if (++at.row == args_.p) at.row = 0;
        }
      }
      if (__all_sync(~0u, !is_nan || isnan(sum))) return 0;
    }
    sum += __shfl_xor_sync(~0u, sum, kUnitRows);
    return __ballot_sync(~0u, is_nan && !isnan(sum)) & ((1u << kUnitRows) - 1);
  }

  // Called by a block. Whether zeros that stand for a part's pixels beyond the output meet a pixel
  // that is not finite.
  __device__ __forceinline__ bool meets_zeros(int32_t part) const {
    const Pixels pixels(args_, part);
    bool found = false;
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i < pixels.segments; i += kThreads) {
      Segment at = pixels.segment(args_, i);
      const int32_t own =
          at.row < args_.p ? max(min(args_.q - at.column, pixels.of_segment), 0) : 0;
      at.exists = at.image < args_.images;
      at.column += own;
#pragma unroll 4
      for (int32_t column = own; column < pixels.of_segment; ++column, ++at.column) {
        found |= isnan(0 * input_of(at));
      }
    }
    return __syncthreads_or(static_cast<int>(found)) != 0;
  }

  // Called by a block. The sum of a part over the pixels that the output has, for the first threads
  // of one row each; of some of them once those of all wanted rows are NaN.
  __device__ __forceinline__ float sum_of_part(uint32_t rows, int32_t part) const {
    float sums[kThreadRows] = {};
    const auto first_row = static_cast<int32_t>(threadIdx.x) / kLanes * kThreadRows;
    const uint32_t own = rows >> first_row & ((1u << kThreadRows) - 1);
    if (sizeof(T) == 2 && args_.output_vector > 1) {
      add_pixels<sizeof(T) == 2 ? 2 : 1>(sums, own, first_row, part);
    } else {
      add_pixels<1>(sums, own, first_row, part);
    }
    return sum_of_block(sums);
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kThreadRows = kUnitRows / 2;  // whose sums a thread adds to
  static constexpr int kLanes = kThreads / 2;        // that share out the pixels
  static_assert(kWarps == kUnitColumns);

  // A part's pixels.
  struct Pixels {
    int32_t first_strip, segments;
    int32_t first, of_segment;  // of each segment, so many from this one on

    __device__ __forceinline__ Pixels(const Arguments& args, int32_t part) {
      const int32_t groups = args.share == Share::kPixels ? kMathGroups : 1;
      first_strip = args.first_strip(part / groups);
      segments = args.strips_of(part / groups) * kSegments;
      first = args.first_pixel_of(part % groups);
      of_segment = args.group_pixels();
    }
    // Begins with the part's first pixel of it.
    __device__ __forceinline__ Segment segment(const Arguments& args, int32_t index) const {
      Segment at = args.segment_at(first_strip + index / kSegments, index % kSegments, kSegments);
      at.column += first;
      return at;
    }
    static constexpr int32_t kSegments = segments_of(sizeof(T));  // of a strip
  };

  template <int kVector>
  using Gradients = typename Element<T>::template Pixels<kVector>;

  template <int kVector>
  static __device__ __forceinline__ float value_of(const Gradients<kVector>& gradients, int index) {
    if constexpr (kVector == 1) {
      return Element<T>::operand(Element<T>::value_of(gradients));
    } else {
      return Element<T>::value(gradients.bits, index);
    }
  }

  // Adds the products of a part's pixels until those of all rows are NaN. A thread takes two
  // vectors of neighbours at a time, whose loads are on their way together.
  template <int kVector>
  __device__ __forceinline__ void add_pixels(float (&sums)[kThreadRows], uint32_t rows,
                                             int32_t first_row, int32_t part) const {
    constexpr int kTogether = 2;
    const Pixels pixels(args_, part);
    const int32_t vectors = pixels.of_segment / kVector;
    const auto lane = static_cast<int32_t>(threadIdx.x) % kLanes;
    int32_t segment = lane / vectors, vector = lane % vectors;
#pragma unroll 1
    while (segment < pixels.segments && rows != 0) {
      float inputs[kTogether][kVector];
      Gradients<kVector> gradients[kTogether][kThreadRows];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        Segment at = pixels.segment(args_, segment);
        at.column += vector * kVector;
        at.exists = at.exists && segment < pixels.segments && at.column < args_.q;
        const T* gradient = gradient_at(at) + first_row * args_.output_k;
#pragma unroll
        for (int row = 0; row < kThreadRows; ++row, gradient += args_.output_k) {
          Element<T>::template load<false>(gradient, gradients[i][row],
                                           at.exists && (rows >> row & 1) != 0);
        }
#pragma unroll
        for (int j = 0; j < kVector; ++j, ++at.column) inputs[i][j] = input_of(at);
        segment += kLanes / vectors;
        vector += kLanes % vectors;
        if (vector >= vectors) {
          vector -= vectors;
          ++segment;
        }
      }
      uint32_t left = 0;
#pragma unroll
      for (int row = 0; row < kThreadRows; ++row) {
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
#pragma unroll
          for (int j = 0; j < kVector; ++j) {
            sums[row] = fmaf(value_of<kVector>(gradients[i][row], j), inputs[i][j], sums[row]);
          }
        }
        if (!isnan(sums[row])) left |= 1u << row;
      }
      rows &= left;
    }
  }

  // Where the gradient has a pixel, of the column's first output channel.
  __device__ __forceinline__ const T* gradient_at(const Segment& at) const {
    return static_cast<const T*>(args_.grad_output) + at.image * args_.output_n +
           element_.k * args_.output_k + at.row * int64_t{args_.output_p} + at.column;
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
  static __device__ __forceinline__ float sum_of_block(const float (&sums)[kThreadRows]) {
    __shared__ float of_warps[kWarps][kThreadRows];
    const auto thread = static_cast<int32_t>(threadIdx.x);
#pragma unroll
    for (int row = 0; row < kThreadRows; ++row) {
      const float sum = sum_of_warp(sums[row]);
      if (thread % 32 == row) of_warps[thread / 32][row] = sum;
    }
    __syncthreads();
    float sum = 0;
    if (thread < kUnitRows) {
      constexpr int kShare = kWarps / 2;  // warps that have a row
      for (int i = 0; i < kShare; ++i) {
        sum += of_warps[thread / kThreadRows * kShare + i][thread % kThreadRows];
      }
    }
    __syncthreads();  // the next part's come to the same place
    return sum;
  }

  const Arguments& args_;
  const FilterElement element_;
};

}  // namespace haloconv::wgrad
