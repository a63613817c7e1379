// How rows of an input with few channels innermost become operands of the matrix instruction.
//
// A unit is 16 bytes: eight products deep, or four in float32. It has some neighbouring taps of a
// filter row with as many channels each as the input has, or more: 1, 2, 4 or 8. The units of a
// plane follow each other along an input row, one for each output column, as the instruction needs
// them without a swizzle: eight units, 128 bytes, are eight neighbouring output columns for as many
// products. The next taps of the filter row, a group, are units of the same plane a few columns on,
// or of another plane if the window's stride puts them between those:
//
//   unit m of a plane, pixel i:  input column  m * stride + plane.first_column + i * dilation,
//
// from the first column that the strip's first output column meets. Pixels that are no taps, and
// channels beyond the input's, are zeros, because an infinity times the filter's zero would be NaN.
#pragma once

#include <cstdint>

#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kUnitBytes = 16;
inline constexpr int kMaxPlanes = 9, kMaxGroups = 16;

struct UnitPlane {
  int32_t first_unit, units;  // in the row
  int32_t first_column;
  int32_t taps;  // pixels that are taps; the others are zeros
};

// A unit's products of a filter row: `taps` taps from `tap` on.
struct TapGroup {
  int32_t unit;  // the row's unit that the strip's first output column meets
  int32_t tap, taps;
};

struct UnitRow {
  int32_t elements;  // of a unit
  int32_t channels, log_padded;
  int32_t stride, dilation;  // along columns
  int32_t ones = -1;         // this channel is 1 everywhere, or -1
  int32_t planes = 0, units = 0;
  UnitPlane plane[kMaxPlanes];
  int32_t groups = 0;
  TapGroup group[kMaxGroups];  // by their units

  HALOCONV_HOST_DEVICE int32_t pixel_of(int32_t element) const { return element >> log_padded; }
  HALOCONV_HOST_DEVICE int32_t channel_of(int32_t element) const {
    return element & ((1 << log_padded) - 1);
  }
  // From the strip's first column.
  HALOCONV_HOST_DEVICE int32_t column_of(const UnitPlane& of, int32_t unit, int32_t pixel) const {
    return unit * stride + of.first_column + pixel * dilation;
  }
};

// Units for strips of so many output columns. With `pairs`, the number of groups is even, because
// two of them are one instruction deep, and a plane holds only pixels that are taps of its groups.
// With `ones`, a channel beyond the input's is 1. planes == 0 if there is no room for them here.
UnitRow make_unit_row(const Conv2dProblem& problem, int32_t columns, bool pairs, bool ones);

}  // namespace haloconv::sm90::first_layers
