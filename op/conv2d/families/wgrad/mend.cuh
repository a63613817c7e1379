// What segments beyond the last row, or the end of theirs, do to results near an infinity or NaN,
// undone: zeros stand for the gradient's pixels there, and where such a zero meets a pixel of the
// input that is not finite, their product is NaN. A block computes such a result once more.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/wgrad/arguments.h"

namespace haloconv::sm90::wgrad {

// Of one element, by all of a block's threads.
template <class T, int kThreads>
class Mend {
 public:
  __device__ __forceinline__ Mend(const Arguments& args, const FilterElement& element)
      : args_(args), element_(element) {}

  // Whether zeros make NaN of the element; of all output channels' alike.
  __device__ __forceinline__ bool is_needed() const { return isnan(sum<true>()); }

  __device__ __forceinline__ void run(T& result) const {
    const float mended = sum<false>();
    if (threadIdx.x == 0) result = T(mended);
  }

 private:
  static constexpr int kWarps = kThreads / 32;

  // Over the gradient's pixels, or over the segments' beyond them. A warp takes whole rows, until
  // its sum is NaN.
  template <bool kBeyond>
  __device__ __forceinline__ float sum() const {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const int32_t rows = kBeyond ? args_.segment_rows() : args_.p;
    const int32_t end = kBeyond ? args_.segments_of_row * args_.segment : args_.q;
    const int32_t channel = element_.k / args_.rows * args_.channels + element_.c;
    float sum = 0;
#pragma unroll 1
    for (int64_t line = thread / 32;
         line < int64_t{args_.images} * rows && !__any_sync(~0u, isnan(sum)); line += kWarps) {
      const int64_t n = line / rows;
      const auto p = static_cast<int32_t>(line % rows);
      const int32_t y = p * args_.stride_h - args_.pad_top + element_.r * args_.dilation_h;
      const T* const gradient = static_cast<const T*>(args_.grad_output) + n * args_.output_n +
                                element_.k * args_.output_k + p * int64_t{args_.output_p};
      const T* const input = static_cast<const T*>(args_.input) + n * args_.input_n +
                             channel * args_.input_c + y * int64_t{args_.input_h};
      const bool has_pixels = p < args_.p;
      for (int32_t q = (kBeyond && has_pixels ? args_.q : 0) + thread % 32; q < end; q += 32) {
        const int32_t x = q * args_.stride_w - args_.pad_left + element_.s * args_.dilation_w;
        const bool inside = y >= 0 && y < args_.h && x >= 0 && x < args_.w;
        sum = fmaf(rounded(gradient, q, has_pixels && q < args_.q), rounded(input, x, inside), sum);
      }
    }
    return of_block(sum);
  }

  static __device__ __forceinline__ float rounded(const T* row, int32_t at, bool inside) {
    return Element<T>::operand(inside ? Element<T>::to_float(row[at]) : 0);
  }

  // The threads' sum, which all of them get.
  static __device__ __forceinline__ float of_block(float sum) {
    __shared__ float sums[kWarps];
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    __syncthreads();  // those of the call before have been read
    sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (const float other : sums) sum += other;
    return sum;
  }

  const Arguments& args_;
  const FilterElement& element_;
};

}  // namespace haloconv::sm90::wgrad
