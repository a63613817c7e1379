// From a warp's sums to the result: rounded through shared memory, so that neighbours in a row are
// written by neighbours.
#pragma once

#include <cstdint>
#include <type_traits>

#include "conv2d/device/element.cuh"
#include "conv2d/device/vector_access.cuh"
#include "conv2d/families/pointwise/loader.cuh"
#include "conv2d/families/pointwise/operand.cuh"

namespace haloconv::pointwise {

// A warp has 16 rows of a tile, and stages so many columns at a time.
inline constexpr int kWarpRows = 16;
template <int kWidth>
inline constexpr int kStagedColumns = kWidth < 64 ? kWidth : 64;

// Where a staged value is: units of 16 bytes are permuted by their row, against bank conflicts.
template <int kStaged>
__device__ __forceinline__ uint32_t staged_at(int32_t row, int32_t column) {
  constexpr int kUnits = kStaged / 8, kRowsOf128Bytes = 8 / kUnits;
  const int32_t unit = column / 8 ^ row / kRowsOf128Bytes % kUnits;
  return row * (kStaged * 2) + unit * 16 + column % 8 * 2;
}

// Some columns of a warp's rows, of which `rows` exist.
template <int kStaged>
__device__ __forceinline__ void write_staged(const Arguments& args, uint32_t staged, int32_t lane,
                                             int32_t first_pixel, int64_t first_channel,
                                             int32_t rows) {
  with_unit(args.pixel_unit, [&]<int kUnit>() {
    constexpr int kLanes = kStaged / kUnit < 32 ? kStaged / kUnit : 32;  // of a row
    constexpr int kStep = 32 / kLanes;                                   // rows at a time
    using Bits = std::conditional_t<kUnit == 1, uint16_t, uint32_t[(kUnit + 1) / 2]>;
#pragma unroll
    for (int first = 0; first < kStaged; first += kLanes * kUnit) {
      const int32_t column = first + lane % kLanes * kUnit;
      const Pixel pixel(args.pixels, args.image_pixels, first_pixel + column);
      const int32_t first_row = lane / kLanes, left = pixel.exists ? rows - first_row : 0;
      auto* to = static_cast<uint16_t*>(args.destination) + pixel.image * args.destination_n +
                 pixel.in_image + (first_channel + first_row) * args.destination_c;
#pragma unroll 4
      for (int row = 0; row < kWarpRows; row += kStep) {
        Bits bits;
        load_shared_bits(staged + staged_at<kStaged>(first_row + row, column), bits);
        store_global_bits(to, bits, row < left);
        to += kStep * args.destination_c;
      }
    }
  });
}

// The same where two rows are the even and the odd pixels of a row of the result.
template <int kStaged>
__device__ __forceinline__ void write_spread(const Arguments& args, uint32_t staged, int32_t lane,
                                             int32_t first_pixel, int32_t first_row, int32_t rows) {
  with_unit(args.result_unit, [&]<int kUnit>() {
    constexpr int kPairs = kUnit < 2 ? 1 : kUnit / 2;
    constexpr int kLanes = kStaged / kPairs < 32 ? kStaged / kPairs : 32;  // of two rows
    constexpr int kStep = 32 / kLanes;  // pairs of rows at a time
    using Bits = std::conditional_t<kPairs == 1, uint16_t, uint32_t[(kPairs + 1) / 2]>;
#pragma unroll 1
    for (int first = 0; first < kStaged; first += kLanes * kPairs) {
      const int32_t column = first + lane % kLanes * kPairs;
      const Pixel pixel(args.pixels, args.image_pixels, first_pixel + column);
      const int32_t source_row = args.source_columns.quotient(pixel.in_image);
      const int32_t source_column = pixel.in_image - source_row * args.source_columns.divisor;
      auto* const image =
          static_cast<uint16_t*>(args.destination) + pixel.image * args.destination_n +
          int64_t{source_row} * args.filter_rows.divisor * args.destination_h + 2 * source_column;
#pragma unroll 1
      for (int i = 0; i < kWarpRows / 2; i += kStep) {
        const int32_t row = 2 * (i + lane / kLanes);
        Bits even, odd;
        load_shared_bits(staged + staged_at<kStaged>(row, column), even);
        load_shared_bits(staged + staged_at<kStaged>(row + 1, column), odd);
        const int32_t line = (first_row + row) / 2;  // (channel, row of the filter)
        const int32_t channel = args.filter_rows.quotient(line);
        auto* const to = image + channel * args.destination_c +
                         (line - channel * args.filter_rows.divisor) * args.destination_h;
        uint32_t pairs[kPairs];
        if constexpr (kPairs == 1) {
          pairs[0] = even | uint32_t{odd} << 16;
        } else {
#pragma unroll
          for (int pair = 0; pair < kPairs; ++pair) {
            pairs[pair] =
                __byte_perm(even[pair / 2], odd[pair / 2], pair % 2 == 0 ? 0x5410 : 0x7632);
          }
        }
        store_global_bits(to, pairs, pixel.exists && row < rows);
      }
    }
  });
}

// A warp's part of a tile, with the bias.
template <class T, int kRows, int kColumns, bool kSpreads, int kSums>
__device__ __forceinline__ void write_results(const Arguments& args, const float (&sums)[kSums],
                                              uint32_t staging, const Position& at,
                                              int32_t thread) {
  constexpr int kWidth = kSums * 2, kStaged = kStagedColumns<kWidth>;
  const int32_t group = thread / 128, warp = thread / 32, lane = thread % 32;
  const uint32_t staged = staging + warp * (kWarpRows * kStaged * 2);
  const int32_t first_row = at.row + (kRows == 128 ? group * 64 : 0) + warp % 4 * kWarpRows;
  const int32_t first_pixel = at.pixel + (kRows == 128 ? 0 : group * kWidth);
  const int64_t first_channel = int64_t{at.group} * args.rows + first_row;
  const int32_t rows = args.rows - first_row;
  float bias[2] = {};
  if (args.bias != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t row = lane / 4 + half * 8;
      if (row < rows) {
        const int64_t channel =
            kSpreads ? args.filter_rows.quotient((first_row + row) / 2) : first_channel + row;
        bias[half] = Element<T>::to_float(static_cast<const T*>(args.bias)[channel]);
      }
    }
  }
#pragma unroll
  for (int first = 0; first < kWidth; first += kStaged) {
    if (first > 0) __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int column = 0; column < kStaged; column += 8) {
        const float* const two = &sums[(first + column) / 2 + half * 2];
        store_shared_bits(staged + staged_at<kStaged>(lane / 4 + half * 8, column + lane % 4 * 2),
                          Element<T>::pair(two[0] + bias[half], two[1] + bias[half]));
      }
    }
    __syncwarp();
    if constexpr (kSpreads) {
      write_spread<kStaged>(args, staged, lane, first_pixel + first, first_row, rows);
    } else {
      write_staged<kStaged>(args, staged, lane, first_pixel + first, first_channel, rows);
    }
  }
  __syncwarp();
}

}  // namespace haloconv::pointwise
