// Computes results again that are NaN, where products with zeros that are no taps may have made
// them so: DgradArguments::mends.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "conv2d/device/round.cuh"
#include "conv2d/families/first_layers/dgrad_arguments.h"
#include "cuda/group_barrier.cuh"

namespace haloconv::sm90::first_layers {

// An operand as it is multiplied.
template <class T>
__device__ __forceinline__ float as_multiplied(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(round_to_tf32(value));
  } else {
    return static_cast<float>(value);
  }
}

template <class T>
__device__ __forceinline__ bool result_is_nan(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return isnan(value);
  } else {
    return __hisnan(value);
  }
}

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
#pragma unroll 8
      for (int32_t k = 0; k < args.k; ++k) {
        sum += as_multiplied(pixel[k * args.output_k]) * as_multiplied(tap[k * args.filter_k]);
      }
    }
  }
  return sum;
}

// By a warpgroup that has written the rows, each thread an element.
template <class T, int kGroups>
__device__ __forceinline__ void mend_rows(const DgradArguments& args, int32_t group) {
  const int32_t first = args.first_of(static_cast<int32_t>(blockIdx.x) * kGroups + group);
  const int32_t end = args.end_from(first);
  const int32_t of_line = args.strip_columns * args.position_elements;
  const int32_t elements = args.stride_h.divisor * args.lines.divisor * of_line;
#pragma unroll 1
  for (int32_t at = first; at < end; ++at) {
    const StripPart part = args.part(at, at + 1);
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(threadIdx.x) % 128; i < elements; i += 128) {
      const int32_t of_all = i / of_line, rest_h = args.lines.quotient(of_all);
      const int32_t line = of_all - rest_h * args.lines.divisor;
      const int32_t h = args.first_h(part, 0) + rest_h;
      const int32_t element = args.first_element(part) + i - of_all * of_line;
      if (h < 0 || h >= args.h || element < 0 || element >= args.line_elements) continue;
      T* const to = static_cast<T*>(args.grad_input) + part.image * args.input_n +
                    h * args.input_h + line * args.input_c + element;
      if (result_is_nan(*to)) *to = T(defined_gradient<T>(args, part.image, h, line, element));
    }
  }
}

}  // namespace haloconv::sm90::first_layers
