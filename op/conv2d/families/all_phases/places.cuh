// Where results are: of the positions, and of the product's columns.
#pragma once

#include "conv2d/device/fuse_values.cuh"
#include "conv2d/families/all_phases/shared_memory.cuh"
#include "cuda/dependent_launch.cuh"
#include "cuda/group_barrier.cuh"

namespace haloconv::all_phases {

// A period by its numbers, from its position.
struct PeriodOf {
  int32_t image, row, column;

  __device__ __forceinline__ PeriodOf(const Arguments& args, int32_t position) {
    const int32_t flat_row = args.row_positions.quotient(position);
    column = position - flat_row * args.row_positions.divisor;
    image = args.image_positions.quotient(flat_row);
    row = flat_row - image * args.image_positions.divisor;
  }
};

// Whether the source has a pixel at a position; moves the pointer to it.
template <class T>
__device__ __forceinline__ bool find_pixel(const Arguments& args, int32_t position,
                                           const T*& from) {
  const PeriodOf of(args, position);
  const int32_t row = of.row - args.h.source_at, column = of.column - args.w.source_at;
  const bool exists = of.image < args.images &&
                      static_cast<uint32_t>(row) < static_cast<uint32_t>(args.h.source_extent) &&
                      static_cast<uint32_t>(column) < static_cast<uint32_t>(args.w.source_extent);
  if (exists) from += of.image * args.source_n + row * args.source_h + column * args.source_w;
  return exists;
}

// The bits of a period's pixels, from `first` on, that lie in the result.
__device__ __forceinline__ uint32_t pixels_inside(const Axis& axis, int32_t first) {
  const int32_t end = min(axis.extent - first, axis.stride), begin = max(-first, 0);
  return (1u << max(end, 0)) - 1 & ~((1u << begin) - 1);
}

__device__ __forceinline__ PeriodPlace place_of(const Arguments& args, const PeriodOf& of) {
  const bool exists =
      of.image < args.images && of.row < args.h.periods && of.column < args.w.periods;
  const int32_t y = of.row * args.h.stride + args.h.first;
  const int32_t x = of.column * args.w.stride + args.w.first;
  PeriodPlace place;
  place.offset = of.image * args.destination_n + y * args.destination_h + x * args.destination_w;
  place.pixels = exists ? pixels_inside(args.h, y) | pixels_inside(args.w, x) << 16 : 0;
  return place;
}

__device__ __forceinline__ bool exists(const PeriodPlace& period, const ColumnPlace& column) {
  return (column.pixel & ~period.pixels) == 0;
}

// The element of the source at which the first channel of a column tile's product lies. An image
// has fewer than 2^31.
__device__ __forceinline__ int32_t first_source_of(const Arguments& args, int32_t column_tile) {
  return args.product_tiles.quotient(column_tile) * args.source_channels *
         static_cast<int32_t>(args.source_c);
}

// A column's weights of that channel.
template <class T>
__device__ __forceinline__ const T* filter_of(const Arguments& args, int32_t product,
                                              const ColumnOf& of) {
  const int32_t group = args.group_channels.quotient(of.channel);
  return static_cast<const T*>(args.filter) +
         int64_t{product} * args.source_channels * args.filter_k +
         (of.channel - group * args.group_channels.divisor) * args.filter_c;
}

// The packing kernel's bytes, weight_flags.h, a word for each column and chunk.
__device__ __forceinline__ const uint32_t* flags_of(const Arguments& args) {
  static_assert(kChunkUnits == 4);
  return reinterpret_cast<const uint32_t*>(static_cast<const unsigned char*>(args.packed) +
                                           args.flags_at);
}

// By a math group, before it writes results of a column tile and after those of another one.
template <class T, int kColumns>
__device__ __forceinline__ void fill_columns(const Arguments& args, const TilePosition& tile,
                                             ColumnPlace* places, ColumnFlags* flags, int32_t group,
                                             int32_t thread) {
  static_assert(kColumns <= 128);
  group_barrier_sync<128>(group + 1);
  // For the kernel that packs the filter: the sums wait for it as well.
  if constexpr (takes_lone_weights(kColumns)) wait_for_kernel_before();
  bool has_lone = false, has_several = false;
  if (thread < kColumns) {
    if constexpr (takes_lone_weights(kColumns)) {
      const uint32_t* const of_column =
          flags_of(args) + (int64_t{tile.column_tile} * kColumns + thread) * args.chunks;
#pragma unroll 4
      for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
        for (uint32_t left = of_column[chunk]; left != 0; left >>= 8) {
          has_lone |= is_lone(left & 255);
          has_several |= (left & 255) == kSeveralNotFinite;
        }
      }
    }
    // Where there is no such column some period lacks one of these pixels: 16 x 16 pixels and their
    // channels fill all tiles.
    ColumnPlace place{.offset = 0, .pixel = ~0u, .bias = -0.0f, .channel = 0};
    const auto [product, first] = args.columns_of(tile.column_tile, kColumns);
    if (first + thread < args.columns) {
      const ColumnOf of = args.column_of(first + thread);
      place.channel = product * args.channels.divisor + of.channel;
      place.offset =
          static_cast<int32_t>(place.channel * args.destination_c + of.row * args.destination_h +
                               of.column * args.destination_w);
      place.pixel = 1u << of.row | 0x10000u << of.column;
      place.bias = load_or<T>(args.bias, place.channel, -0.0f);
    }
    places[thread] = place;
  }
  if constexpr (takes_lone_weights(kColumns)) {
    const uint32_t lone = __ballot_sync(~0u, has_lone), several = __ballot_sync(~0u, has_several);
    if (thread % 32 == 0) {
      flags->lone[thread / 32] = lone;
      flags->several[thread / 32] = several;
      flags->column_tile = tile.column_tile;
    }
  }
  group_barrier_sync<128>(group + 1);
}

}  // namespace haloconv::all_phases
