// An element of the result by its definition: for what is NaN only by zeros that it has not.
#pragma once

#include "conv2d/device/element.cuh"
#include "conv2d/families/all_phases/places.cuh"

namespace haloconv::all_phases {

// Whether all shifts of a period lie in the source along an axis.
__device__ __forceinline__ bool is_inside(const Axis& axis, int32_t period) {
  const int32_t last = period + axis.shifts - 1 - axis.source_at;
  return last < axis.source_extent && last - (axis.shifts - 1) >= 0;
}

// Whether a zero that the definition has not was multiplied.
__device__ __forceinline__ bool may_be_false(const Arguments& args, const PeriodOf& of) {
  return args.has_false_products || !is_inside(args.h, of.row) || !is_inside(args.w, of.column);
}

template <class T>
__device__ __forceinline__ float defined_sum(const Arguments& args, const PeriodOf& period,
                                             const ColumnOf& of) {
  using Of = Element<T>;
  const int32_t group = args.group_channels.quotient(of.channel);
  const int32_t first_source = group * args.group_sources.divisor;
  const T* const source = static_cast<const T*>(args.source) + period.image * args.source_n +
                          first_source * args.source_c;
  const T* const filter = static_cast<const T*>(args.filter) + first_source * args.filter_k +
                          (of.channel - group * args.group_channels.divisor) * args.filter_c;
  float sum = 0;
#pragma unroll 1
  for (int32_t u = 0; u < args.h.shifts; ++u) {
    const int32_t p = period.row + args.h.shifts - 1 - u - args.h.source_at;
    const int32_t r = of.row + u * args.h.stride;
    if (p < 0 || p >= args.h.source_extent || r >= args.h.taps) continue;
#pragma unroll 1
    for (int32_t v = 0; v < args.w.shifts; ++v) {
      const int32_t q = period.column + args.w.shifts - 1 - v - args.w.source_at;
      const int32_t s = of.column + v * args.w.stride;
      if (q < 0 || q >= args.w.source_extent || s >= args.w.taps) continue;
      const T* pixel = source + p * args.source_h + q * args.source_w;
      const T* weight = filter + r * args.filter_r + s * args.filter_s;
#pragma unroll 1
      for (int32_t k = 0; k < args.group_sources.divisor; ++k) {
        sum += Of::operand(Of::load(pixel, true)) * Of::operand(Of::load(weight, true));
        pixel += args.source_c;
        weight += args.filter_k;
      }
    }
  }
  return sum;
}

// Computes those of a warp's results once more that are NaN where they need not be: 16 periods from
// the first position on, by a tile's columns. They were written by the same warp.
template <class T, int kColumns>
__device__ __forceinline__ void repair(const Arguments& args, const TilePosition& tile,
                                       const ColumnPlace* columns, int32_t first, int32_t lane) {
  const PeriodOf period(args, first + lane % 16);
  const PeriodPlace place = place_of(args, period);
  if (!may_be_false(args, period)) return;
#pragma unroll 1
  for (int32_t i = lane / 16; i < kColumns; i += 2) {
    const ColumnPlace column = columns[i];
    if (!exists(place, column)) continue;
    const int64_t offset = place.offset + column.offset;
    T* const to = static_cast<T*>(args.destination) + offset;
    if (!isnan(static_cast<float>(*to))) continue;
    const float sum = defined_sum<T>(args, period, args.column_of(tile.column_tile * kColumns + i));
    float values[kFusedAtOnce] = {sum};
    const OutputElement elements[kFusedAtOnce] = {
        {.exists = true, .channel = column.channel, .offset = offset}};
    fuse_values<T>(args.bias, args.fusion, elements, values);
    store(to, values[0]);
  }
}

}  // namespace haloconv::all_phases
