// fprop of 16-bit types from rows of the input as they lie in memory, without units.
//
// With channels innermost and no dilation, what an output pixel meets of an input row is one run of
// elements, `taps` of them, and its neighbour's run begins `pixel_step` elements on. The copy
// engine brings an input row, zeros where there is padding; the first operand of the matrix
// instruction comes from registers, which threads load from such a row by words of two elements. A
// run that begins at an odd element is read from the element before it on, for which the filter has
// a zero and the operand too: an infinity would make NaN of the filter's zero alone.
//
// Runs of a matrix instruction must agree in that. Where pixel_step is odd, one warpgroup has the
// even columns of a tile and the other the odd ones, each with an image of the filter of its own.
#pragma once

#include <cstdint>

#include "conv2d/families/first_layers/arguments.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kDeep = 16;              // products of an instruction
inline constexpr int kPlainUnitElements = 8;  // of 16 bytes
inline constexpr int kCopiedElements = 4;     // of 8 bytes, which the copy engine counts by
inline constexpr int kMostCopied = 256;       // of these in a box

// Blocks that share a multiprocessor: one's results are written while others multiply. Threads with
// more sums have no registers for that.
constexpr int plain_blocks(int channels, bool fused) {
  return channels <= 64 ? (fused ? 2 : 3) : channels <= 96 && !fused ? 2 : 1;
}

// Which elements a thread's words keep: of the first half of a run's first step, and of both halves
// of its last one.
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
  // 1 where a warpgroup's runs begin at odd elements.
  HALOCONV_HOST_DEVICE int32_t before(int32_t group) const {
    return (shift + (has_halves() ? group : 0)) % 2;
  }
  HALOCONV_HOST_DEVICE int32_t images() const { return has_halves() ? 2 : 1; }
  HALOCONV_HOST_DEVICE int32_t row_bytes() const { return boxes * box * 8; }
  // Of a filter's image, by units of 16 bytes: (row of the filter, half of an instruction's depth,
  // channel).
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
  // Where a column's words begin in a row, in bytes.
  HALOCONV_HOST_DEVICE int32_t run_bytes(int32_t group, int32_t column) const {
    return (shift + column * pixel_step - before(group)) * 2;
  }
  // From a thread's first column to the other, eight rows of the operand on.
  HALOCONV_HOST_DEVICE int32_t half_bytes() const {
    return (has_halves() ? 16 : 8) * pixel_step * 2;
  }

  // The element of a run that a place in the depth meets, or one that is none.
  HALOCONV_HOST_DEVICE int32_t tap_of(int32_t group, int32_t place) const {
    return place - before(group);
  }
  // Of a thread, whose place in its quad is t.
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
