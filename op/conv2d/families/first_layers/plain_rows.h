// fprop of 16-bit types from rows of the input as they lie in memory, without units.
//
// With channels innermost and no dilation, an output pixel meets one run of an input row, of `taps`
// elements, and its neighbour's run begins `pixel_step` elements on. The copy engine brings an
// input row, with zeros for padding. The first operand of the matrix instruction comes from
// registers, which threads load from such a row by words of two elements. A run that begins at an
// odd element is read from the element before it. For that one the filter has a zero, and the
// operand too, because an infinity times the filter's zero would be NaN.
//
// All runs of a matrix instruction must begin alike. If pixel_step is odd, one warpgroup has the
// even columns of a tile and the other the odd ones, each with its own image of the filter.
#pragma once

#include <cstdint>

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kDeep = 16;              // the depth of an instruction
inline constexpr int kPlainUnitElements = 8;  // of 16 bytes
inline constexpr int kCopiedElements = 4;     // of 8 bytes, the copy engine's unit
inline constexpr int kMostCopied = 256;       // such units in a box

// Blocks that share a multiprocessor: one writes its results while others multiply. Threads with
// more sums do not have the registers for that.
constexpr int plain_blocks(int channels, bool fused) {
  return channels <= 64 ? (fused ? 2 : 3) : channels <= 96 && !fused ? 2 : 1;
}

// Which elements of a thread's words are kept: in the first half of a run's first step, and in both
// halves of its last one.
struct RunMask {
  uint32_t first, last[2];
};

struct PlainRows {
  int32_t channels;    // of the input
  int32_t pixel_step;  // elements from a column's run to the next one's
  int32_t taps;        // elements of a run that are taps
  int32_t shift;       // elements in front of a strip's first run
  int32_t steps;       // instructions for a run
  int32_t boxes, box;  // copies of a row, of so many times 8 bytes each

  HALOCONV_HOST_DEVICE bool has_halves() const { return pixel_step % 2 != 0; }
  // 1 if a warpgroup's runs begin at odd elements.
  HALOCONV_HOST_DEVICE int32_t before(int32_t group) const {
    return (shift + (has_halves() ? group : 0)) % 2;
  }
  HALOCONV_HOST_DEVICE int32_t images() const { return has_halves() ? 2 : 1; }
  HALOCONV_HOST_DEVICE int32_t row_bytes() const { return boxes * box * 8; }
  // The size of a filter's image, whose units of 16 bytes are (row of the filter, half of an
  // instruction's depth, channel).
  HALOCONV_HOST_DEVICE int32_t image_units(int32_t r, int32_t channels) const {
    return r * steps * 2 * channels;
  }

  // Row 0 to 63 of a warpgroup's operand: a pixel of the tile.
  HALOCONV_HOST_DEVICE int32_t tile_row(const Sweep& sweep, int32_t group, int32_t number) const {
    if (sweep.tile_rows == 1) return 0;
    return has_halves() ? number / 32 : group;
  }
  HALOCONV_HOST_DEVICE int32_t column(const Sweep& sweep, int32_t group, int32_t number) const {
    if (has_halves()) return (sweep.tile_rows == 1 ? number : number % 32) * 2 + group;
    return (sweep.tile_rows == 1 ? group * 64 : 0) + number;
  }
  // The byte of a row at which a column's words begin.
  HALOCONV_HOST_DEVICE int32_t run_bytes(int32_t group, int32_t column) const {
    return (shift + column * pixel_step - before(group)) * 2;
  }
  // From a thread's first column to its other one, eight rows of the operand on.
  HALOCONV_HOST_DEVICE int32_t half_bytes() const {
    return (has_halves() ? 16 : 8) * pixel_step * 2;
  }

  // The element of a run that a place in the depth meets, or a number that is no element.
  HALOCONV_HOST_DEVICE int32_t tap_of(int32_t group, int32_t place) const {
    return place - before(group);
  }
  // The mask of a thread whose place in its quad is t.
  HALOCONV_HOST_DEVICE RunMask mask(int32_t group, int32_t t) const {
    RunMask mask{};
    for (int32_t half = 0; half < 2; ++half) {
      for (int32_t i = 0; i < 2; ++i) {
        const int32_t place = half * kPlainUnitElements + t * 2 + i;
        const uint32_t element = 0xffffu << i * 16;
        if (half == 0 && tap_of(group, place) >= 0) mask.first |= element;
        if (tap_of(group, (steps - 1) * kDeep + place) < taps) mask.last[half] |= element;
      }
    }
    return mask;
  }
};

struct PlainRowsArguments {
  FpropArguments fprop;  // without units
  PlainRows rows;
};

}  // namespace haloconv::sm90::first_layers
