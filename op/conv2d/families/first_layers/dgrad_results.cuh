// Writes a strip's rows of the input's gradient.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "conv2d/families/first_layers/dgrad_arguments.h"
#include "cuda/group_barrier.cuh"

namespace haloconv::sm90::first_layers {

// An element of a line of the gradient by its definition.
template <class T>
__device__ __forceinline__ float defined_gradient(const DgradArguments& args, int32_t image,
                                                  int32_t h, int32_t line, int32_t element) {
  const bool is_of_all = args.lines.divisor == 1;
  const int32_t w = is_of_all ? args.c.quotient(element) : element;
  const int32_t c = is_of_all ? element - w * args.c.divisor : line;
  float sum = 0;
#pragma unroll 1
  for (int32_t r = 0; r < args.r.divisor; ++r) {
    const int32_t row = h + args.pad_top - r * args.dilation_h;
    const int32_t p = row < 0 ? args.p : args.stride_h.quotient(row);
    if (p >= args.p || p * args.stride_h.divisor != row) continue;
#pragma unroll 1
    for (int32_t s = 0; s < args.s.divisor; ++s) {
      const int32_t column = w + args.pad_left - s * args.dilation_w;
      const int32_t q = column < 0 ? args.q : args.stride_w.quotient(column);
      if (q >= args.q || q * args.stride_w.divisor != column) continue;
      const T* const pixel = static_cast<const T*>(args.grad_output) + image * args.output_n +
                             p * args.output_p + q * args.output_q;
      const T* const tap = static_cast<const T*>(args.filter) + c * args.filter_c +
                           r * args.filter_r + s * args.filter_s;
#pragma unroll 1
      for (int32_t k = 0; k < args.k; ++k) {
        sum += static_cast<float>(pixel[k * args.output_k]) *
               static_cast<float>(tap[k * args.filter_k]);
      }
    }
  }
  return sum;
}

__device__ __forceinline__ bool any_is_nan(uint32_t both, __half) {
  const auto values = reinterpret_cast<const __half2&>(both);
  return __hisnan(__low2half(values)) || __hisnan(__high2half(values));
}
__device__ __forceinline__ bool any_is_nan(uint32_t both, __nv_bfloat16) {
  const auto values = reinterpret_cast<const __nv_bfloat162&>(both);
  return __hisnan(__low2bfloat16(values)) || __hisnan(__high2bfloat16(values));
}

// Writes a warpgroup's results, by the place of its threads' sums in the instruction.
template <class T, int kChannels>
class RowWriter {
 public:
  __device__ __forceinline__ RowWriter(const DgradArguments& args, T* staging, int32_t group)
      : args_(args),
        staging_(staging),
        group_(group),
        thread_(static_cast<int32_t>(threadIdx.x) % 128) {
    const int32_t lane = thread_ % 32, in_strip = thread_ / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      const LinePlace of = args.line_place(i / 2 * 8 + lane % 4 * 2 + i % 2);
      const int32_t place = (of.rest_h * args.lines.divisor + of.line) * args.staged_elements() +
                            of.element + in_strip * args.position_elements;
      place_[i] = of.rest_h < args.stride_h.divisor ? of.rest_h << 20 | of.line << 16 | place : -1;
    }
  }

  // `row` counts the part's rows.
  __device__ __forceinline__ void write(const StripPart& part, int32_t row,
                                        const float (&sums)[kChannels / 2]) {
    const int32_t h = (args_.first_row + part.row + row) * args_.stride_h.divisor - args_.pad_top;
    // In a line of the gradient.
    const int32_t first = (part.column * args_.stride_w.divisor - args_.pad_left) *
                          (args_.lines.divisor == 1 ? args_.c.divisor : 1);
    const int64_t image_at = part.image * args_.input_n;
    // Results move up by as much as the line's first one is beyond a multiple of 16 bytes.
    const auto low_first = static_cast<int32_t>(image_at + h * args_.input_h) + first;
    const auto low_pitch = static_cast<int32_t>(args_.input_h);
    const auto low_line = static_cast<int32_t>(args_.input_c);
    const auto shift_of = [&](int32_t rest_h, int32_t line) {
      return (low_first + rest_h * low_pitch + line * low_line) & 7;
    };
    const int32_t beyond = 8 * args_.position_elements;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      int32_t place = place_[i];
      // Otherwise the compiler takes it apart before the loop of rows, and registers spill.
      asm volatile("" : "+r"(place));
      if (place < 0) continue;
      const int32_t rest_h = place >> 20, line = place >> 16 & 15;
      T* const to = staging_ + (place & 0xffff) + shift_of(rest_h, line);
      const int sum = i / 2 * 4 + i % 2;
      to[0] = T(sums[sum]);
      to[beyond] = T(sums[sum + 2]);
    }
    // Others write what threads read here only two rows later, after the next row's barrier.
    group_barrier_sync<128>(group_ + 1);
    const int32_t least = max(first, 0);
    const int32_t most = min(first + kStripColumns * args_.position_elements, args_.line_elements);
    const int32_t all_lines = args_.stride_h.divisor * args_.lines.divisor;
    const int32_t vectors = all_lines * args_.line_vectors.divisor;
#pragma unroll 1
    for (int32_t i = thread_; i < vectors; i += 128) {
      const int32_t of_all = args_.line_vectors.quotient(i);
      const int32_t rest_h = args_.lines.quotient(of_all), to_h = h + rest_h;
      const int32_t line = of_all - rest_h * args_.lines.divisor;
      const int32_t in_line =
          first - shift_of(rest_h, line) + (i - of_all * args_.line_vectors.divisor) * 8;
      if (to_h < 0 || to_h >= args_.h || in_line >= most || in_line + 8 <= least) continue;
      const uint4 values = *reinterpret_cast<const uint4*>(staging_ + i * 8);
      T* const to = static_cast<T*>(args_.grad_input) + image_at + to_h * args_.input_h +
                    line * args_.input_c + in_line;
      const bool is_nan = any_is_nan(values.x, T()) || any_is_nan(values.y, T()) ||
                          any_is_nan(values.z, T()) || any_is_nan(values.w, T());
      if (in_line >= least && in_line + 8 <= most && !is_nan) {
        *reinterpret_cast<uint4*>(to) = values;
        continue;
      }
#pragma unroll 1
      for (int32_t j = max(least - in_line, 0); j < min(8, most - in_line); ++j) {
        const T value = staging_[i * 8 + j];
        // From a product that is not in the definition: infinity times a zero, no tap or pixel.
        to[j] = __hisnan(value) ? T(defined_gradient<T>(args_, part.image, to_h, line, in_line + j))
                                : value;
      }
    }
    swap_buffers();
  }

 private:
  static constexpr int kPlaces = kChannels / 4;

  __device__ __forceinline__ void swap_buffers() {
    const int32_t elements = args_.staging_bytes() / 2;
    staging_ += is_second_ ? -elements : elements;
    is_second_ = !is_second_;
  }

  const DgradArguments& args_;
  T* staging_;
  const int32_t group_, thread_;
  bool is_second_ = false;
  int32_t place_[kPlaces];  // in a buffer, by 2^16 the line and by 2^20 the rest of h; or -1
};

}  // namespace haloconv::sm90::first_layers
