// Descents: where the destination has few channels, 3x3 taps go by warps that share nothing but the
// filter. A warp goes down kDescentColumns columns of an image, row by row of the source. It
// multiplies each row with all rows of taps at once, and so has sums of three rows of results, of
// which one is complete then: each row of the source comes once, and each of its values is read
// from shared memory for three products where patches read it for one.
//
// Rows come as they lie in memory, by 16 bytes, a few channels at a time, to a ring of the warp's
// own. They begin at any word of 16 bytes; all channels of a row at the same place, or of 16-bit
// types every other one. Values of float32 are rounded when they are read. The filter stays in
// shared memory as fragments.
//
// The words of a 16-bit type hold two neighbouring pixels of one channel, where the matrix
// instruction wants two channels of one pixel. Two channels' words exchange their halves: one
// operand has the even pixels of 16 then, the other the odd ones. Those are also what the next
// column of taps meets, but for the two that change their parts: an even pixel's right neighbour is
// odd.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/fragments.h"

namespace haloconv::implicit_gemm {

inline constexpr int kDescentTaps = 3;       // of a column and of a row
inline constexpr int kDescentChannels = 16;  // of the destination: the matrix instruction's rows
// Of square_3x3's input gradient an H200 took 3.58, 3.42, 3.30 and 3.53 ms with 64, 80, 96 and 112,
// of which the last spills.
inline constexpr int kDescentColumns = 96;
inline constexpr int kMostDescentWarps = 8;
// The tile with the same filter, which computes what descents do not take.
inline constexpr Tile kDescentPatch = {512, 16, 128, 16};

// Each so many'th channel begins at the same place of 16 bytes: that of whom lanes of a warp copy.
HALOCONV_HOST_DEVICE constexpr int descent_channels_alike(int32_t element_bytes) {
  return element_bytes == 4 ? 1 : 2;
}

// A chunk is so many channels: one depth of the matrix instruction.
HALOCONV_HOST_DEVICE constexpr int descent_depth(int32_t element_bytes) {
  return 2 * kUnitBytes / element_bytes;
}

// A stage of the ring has a row's pixels of a chunk, and room for those beyond its columns that
// taps meet, and those before them in 16 bytes. Of float32 the lines of four channels begin in
// banks that lie eight apart, of 16-bit types those of four even ones, so that eight neighbouring
// words of each are in all banks. With 3, 4 and 5 stages the same gradient took 3.32, 3.30 and
// 3.32 ms, in bfloat16 1.64 to 1.66, 1.63 to 1.64 and 1.65.
inline constexpr int kDescentStages = 3;
HALOCONV_HOST_DEVICE constexpr int descent_line_units(int32_t element_bytes) {
  const int most_bytes =
      (kDescentColumns + kDescentTaps - 1) * element_bytes + kUnitBytes - kWordBytes;
  return (most_bytes + kUnitBytes - 1) / kUnitBytes;
}
HALOCONV_HOST_DEVICE constexpr int descent_line_bytes(int32_t element_bytes) {
  return descent_line_units(element_bytes) * kUnitBytes;
}
inline constexpr int kDescentStageBytes = descent_depth(4) * descent_line_bytes(4);
static_assert(kDescentStageBytes == descent_depth(2) * descent_line_bytes(2));

// Lanes, of which each copies a unit of a line; of 16-bit types the others copy the next channel's.
HALOCONV_HOST_DEVICE constexpr int descent_line_lanes(int32_t element_bytes) {
  return 32 / descent_channels_alike(element_bytes);
}
static_assert(descent_line_units(4) <= descent_line_lanes(4));
static_assert(descent_line_units(2) <= descent_line_lanes(2));

// Of a chunk.
inline constexpr int kDescentChunkFragments = kDescentTaps * kDescentTaps;

// The part of a line that a row has: its first pixel, which may lie before the source's row, is
// `shift` pixels behind the line's beginning.
template <int kElementBytes>
struct DescentLine {
  static constexpr int32_t kUnitPixels = kUnitBytes / kElementBytes;
  int32_t first, shift;

  // `column` is the source's column of the row's first pixel, `address` that pixel's.
  HALOCONV_HOST_DEVICE DescentLine(int32_t column, uint32_t address)
      : first(column), shift(static_cast<int32_t>(address / kElementBytes % kUnitPixels)) {}

  // Whether a unit of the line has a pixel that is read.
  HALOCONV_HOST_DEVICE bool has_unit(int32_t unit) const {
    return unit * kUnitPixels < shift + kDescentColumns + kDescentTaps - 1;
  }
  // Bytes of it that are copied, of a row of so many columns.
  HALOCONV_HOST_DEVICE int32_t unit_bytes(int32_t unit, int32_t columns) const {
    return shifted_unit_bytes((first - shift + unit * kUnitPixels) * kElementBytes,
                              columns * kElementBytes);
  }
  // Pixels of the line before the row. The unit in which they end was copied whole.
  HALOCONV_HOST_DEVICE int32_t before() const { return first < shift ? shift - first : 0; }
};

// Columns by which descents begin before the destination's first, so that what they meet begins at
// words.
HALOCONV_HOST_DEVICE constexpr int32_t descent_lead(const Gather& g, const Phase& phase,
                                                    int32_t element_bytes) {
  const int32_t column =
      phase.w.origin + phase.w.first_shift - taps_before(kDescentTaps, g.axis_w.shift_step);
  return lead_of(column, kWordBytes / element_bytes);
}

// The fragment of a chunk that is kept at a place: by columns of the window, rows of results whose
// sums it is for, the eldest first.
HALOCONV_HOST_DEVICE constexpr int32_t descent_fragment(const Gather& g, int32_t place) {
  const int32_t column = place / kDescentTaps, row = place % kDescentTaps;
  const int32_t y = g.axis_h.shift_step < 0 ? row : kDescentTaps - 1 - row;
  const int32_t x = g.axis_w.shift_step < 0 ? kDescentTaps - 1 - column : column;
  return y * kDescentTaps + x;
}

// A launch by descents with the filter of `patches`, a launch by patches of kDescentPatch and two
// units; none where the taps are not 3x3, next to each other, where the destination has more
// channels or several phases, where rows do not begin at words or channels not at the same place of
// a unit, or where a block has not enough shared memory.
std::optional<Arguments> make_descents(const Arguments& patches, int32_t element_bytes,
                                       const Chip& chip);

// Whether an axis's taps are kDescentTaps, next to each other, and its pixels too.
bool is_descended(const AxisPhase& phase, const Axis& axis);

// Whether a launch with its operands can go by descents, also by those of a team: else it goes by
// patches.
bool descents_take(const Arguments& args);

// Of a group's filter.
HALOCONV_HOST_DEVICE constexpr int32_t descent_filter_bytes(int32_t chunks) {
  return chunks * kDescentChunkFragments * kFragmentBytes;
}
int descent_shared_bytes(const Arguments& args);

}  // namespace haloconv::implicit_gemm
