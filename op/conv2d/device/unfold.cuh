// The kernel that copies an input as unfold.h says.
#pragma once

#include <cuda_runtime.h>

#include "conv2d/geometry/integers.h"
#include "conv2d/geometry/unfold.h"
#include "cuda/check.h"

namespace haloconv {

inline constexpr int kUnfoldThreads = 256;

// Some values of a row.
template <class Bits, int kCount>
struct alignas(kCount * sizeof(Bits)) RowValues {
  Bits of[kCount];
};

// What a thread copies, of a tensor whose rows have so many units.
struct RowUnit {
  int32_t row, first;  // of all rows, and in the row

  __device__ __forceinline__ RowUnit(const FastDiv& units, int32_t size) {
    const auto index = static_cast<int32_t>(blockIdx.x * kUnfoldThreads + threadIdx.x);
    row = units.quotient(index);
    first = (index - row * units.divisor) * size;
  }
};

// Every kStride'th value from column `w` of a row on; zeros beside the row.
template <class Bits, int kUnit>
__device__ __forceinline__ RowValues<Bits, kUnit> strided_values(const Bits* row, int32_t w,
                                                                 int32_t stride, int32_t width) {
  RowValues<Bits, kUnit> values;
  // Of a stride of 2 the values are one half of whole vectors.
  constexpr int kBytes = 2 * kUnit * sizeof(Bits), kPartBytes = kBytes < 16 ? kBytes : 16;
  constexpr int kParts = kBytes / kPartBytes, kOfPart = 2 * kUnit / kParts;
  const int32_t even = w & ~1;
  const bool is_whole = stride == 2 && even >= 0 && even + 2 * kUnit <= width &&
                        reinterpret_cast<uintptr_t>(row + even) % kPartBytes == 0;
  if (is_whole) {
    const bool is_odd = w != even;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const auto both =
          *reinterpret_cast<const RowValues<Bits, kOfPart>*>(row + even + part * kOfPart);
#pragma unroll
      for (int i = 0; i < kOfPart / 2; ++i) {
        values.of[part * kOfPart / 2 + i] = is_odd ? both.of[2 * i + 1] : both.of[2 * i];
      }
    }
    return values;
  }
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const int32_t at = w + i * stride;
    values.of[i] = at >= 0 && at < width ? __ldg(row + at) : Bits{0};
  }
  return values;
}

// A thread has some neighbouring pixels of an output row, and copies what each tap meets there.
template <class Bits, int kUnit>
__global__ void __launch_bounds__(kUnfoldThreads)
    unfold_kernel(const __grid_constant__ Unfold unfold, const FastDiv units, const FastDiv rows,
                  int32_t all_rows, const Bits* input, Bits* copy) {
  const RowUnit unit(units, kUnit);
  if (unit.row >= all_rows) return;
  const int32_t plane = rows.quotient(unit.row), p = unit.row - plane * rows.divisor;
  const int32_t n = unfold.c.quotient(plane), c = plane - n * unfold.c.divisor;
  const Bits* const from = input + n * unfold.input_n + c * unfold.input_c;
  const int64_t copy_plane = int64_t{unfold.p} * unfold.q;
  Bits* to =
      copy + plane * (unfold.taps_h * unfold.taps_w * copy_plane) + p * unfold.q + unit.first;
  int32_t h = p * unfold.stride_h - unfold.pad_top;
  for (int32_t r = 0; r < unfold.taps_h; ++r, h += unfold.dilation_h) {
    int32_t w = unit.first * unfold.stride_w - unfold.pad_left;
    for (int32_t s = 0; s < unfold.taps_w; ++s, w += unfold.dilation_w) {
      RowValues<Bits, kUnit> values = {};
      if (h >= 0 && h < unfold.h) {
        values =
            strided_values<Bits, kUnit>(from + h * unfold.input_h, w, unfold.stride_w, unfold.w);
      }
      *reinterpret_cast<RowValues<Bits, kUnit>*>(to) = values;
      to += copy_plane;
    }
  }
}

inline unsigned unfold_blocks(int64_t rows, int64_t units) {
  return static_cast<unsigned>(ceil_div(rows * units, kUnfoldThreads));
}

// Calls body.template operator()<n>() with the unit as a constant.
template <class Body>
void with_host_unit(int32_t unit, Body body) {
  switch (unit) {
    case 8:
      return body.template operator()<8>();
    case 4:
      return body.template operator()<4>();
    case 2:
      return body.template operator()<2>();
    default:
      return body.template operator()<1>();
  }
}

inline void enqueue_unfold(const Unfold& unfold, const void* input, void* copy,
                           cudaStream_t stream) {
  const int64_t rows = int64_t{unfold.n} * unfold.c.divisor * unfold.p;
  const int64_t units = unfold.q / unfold.unit;
  const auto start = [&]<class Bits, int kUnit>() {
    unfold_kernel<Bits, kUnit><<<unfold_blocks(rows, units), kUnfoldThreads, 0, stream>>>(
        unfold, FastDiv(units), FastDiv(unfold.p), static_cast<int32_t>(rows),
        static_cast<const Bits*>(input), static_cast<Bits*>(copy));
  };
  with_host_unit(unfold.unit, [&]<int kUnit>() {
    if (unfold.element_bytes == 2) {
      start.template operator()<uint16_t, kUnit>();
    } else if constexpr (kUnit <= 4) {
      start.template operator()<uint32_t, kUnit>();
    }
  });
  check_launch("unfold");
}

}  // namespace haloconv
