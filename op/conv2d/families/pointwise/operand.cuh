// An operand of the matrix product on its way to shared memory: kRows rows of kColumns 16-bit
// values.
//
// They lie there as the matrix instruction's 128-byte swizzle has it: 64 columns of a row are 128
// bytes, eight units of 16, which are permuted by the row's number; below each other come all rows,
// then the next 64 columns.
#pragma once

#include <cstdint>

#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/pointwise/tile.h"
#include "conv2d/geometry/fast_div.h"
#include "cuda/copy_async.cuh"

namespace haloconv::pointwise {

// Calls body.template operator()<n>() with the unit as a constant.
template <class Body>
__device__ __forceinline__ void with_unit(int32_t unit, Body body) {
  if (unit == 8) {
    body.template operator()<8>();
  } else if (unit == 4) {
    body.template operator()<4>();
  } else if (unit == 2) {
    body.template operator()<2>();
  } else {
    body.template operator()<1>();
  }
}

// Where a thread's units of `unit` values begin, the threads of a row being neighbours: they are in
// one column, and in rows kThreads * unit / kColumns apart.
template <int kColumns>
struct Place {
  int32_t row, column;

  __device__ __forceinline__ Place(int32_t thread, int32_t unit) {
    const int32_t shift = __ffs(kColumns / unit) - 1;
    row = thread >> shift;
    column = (thread & ((1 << shift) - 1)) * unit;
  }
};

// One of all images' pixels.
struct Pixel {
  bool exists;
  int64_t image;
  int32_t in_image;

  __device__ __forceinline__ Pixel(int32_t pixels, const FastDiv& image_pixels, int32_t index) {
    exists = index < pixels;
    const int32_t quotient = image_pixels.quotient(index);
    image = quotient;
    in_image = index - quotient * image_pixels.divisor;
  }
};

template <int kRows>
__device__ __forceinline__ uint32_t swizzled(int32_t row, int32_t column) {
  const int32_t byte = column % 64 * 2;
  return column / 64 * (kRows * 128) + row * 128 + (byte ^ (row % 8 * 16));
}

// Of the rows that a thread has, from its first at `from` on, its units in those below `rows`, if
// its column exists; the others become zeros. Single values have registers on their way,
// kMostValues at a time.
template <int kRows, int kColumns, int kUnit, int kMostValues>
__device__ __forceinline__ void copy_rows(uint32_t to, const Place<kColumns>& place,
                                          const uint16_t* from, int64_t pitch, int32_t rows,
                                          bool exists) {
  constexpr int kStep = kThreads * kUnit / kColumns, kPasses = kRows / kStep;
  constexpr int kMost = kUnit > 1 ? 8 : kMostValues;
  constexpr int kBatch = kPasses < kMost ? kPasses : kMost;  // copies that the loop is unrolled to
  const int64_t step = kStep * pitch;
  const int32_t left = exists ? rows - place.row : 0;
  const uint32_t first = to + swizzled<kRows>(place.row, place.column);
  const auto at = [&](int32_t rows_further) {
    if constexpr (kStep % 8 == 0) return first + rows_further * 128;
    return to + swizzled<kRows>(place.row + rows_further, place.column);
  };
#pragma unroll 1
  for (int32_t further = 0; further < kRows; further += kBatch * kStep) {
    if constexpr (kUnit > 1) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int32_t row = further + i * kStep;
        copy_async_bytes<kUnit * 2>(at(row), from, row < left ? kUnit * 2 : 0);
        from += step;
      }
    } else {  // less than an asynchronous copy takes
      uint16_t values[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        load_global_bits(from, values[i], further + i * kStep < left);
        from += step;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) store_shared_bits(at(further + i * kStep), values[i]);
    }
  }
}

// The chunks that shared memory holds, one after the other.
template <int kStages, int kBytes>
class Ring {
 public:
  __device__ __forceinline__ explicit Ring(uint32_t first) : first_(first), at_(first) {}

  // Returns where the next chunk is, and goes on.
  __device__ __forceinline__ uint32_t next() {
    const uint32_t at = at_;
    at_ = at == first_ + (kStages - 1) * kBytes ? first_ : at + kBytes;
    return at;
  }

 private:
  const uint32_t first_;
  uint32_t at_;
};

// The number of the thread's warpgroup, 0 or 1. The compiler sees that it is uniform in a warp.
__device__ __forceinline__ int32_t warpgroup_of(int32_t thread) {
  return __shfl_sync(~0u, thread / 128, 0);
}

// The descriptor's upper word: 128-byte swizzle, 1024 bytes from eight rows to the next.
inline constexpr uint32_t kSwizzled = 1u << 30 | 1024 / 16;

// An operand of kRows rows whose columns are the matrix instruction's own dimension, or, where they
// are its depth, the same with what it does not read.
template <int kRows>
__device__ __forceinline__ uint64_t operand_at(uint32_t address) {
  const uint32_t lower = (address >> 4 & 0x3fff) | (kRows * 128 / 16) << 16;
  return uint64_t{kSwizzled} << 32 | lower;
}

}  // namespace haloconv::pointwise
