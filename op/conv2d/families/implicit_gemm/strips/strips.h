// Strips: where a tile's products are few, the filter's taps times all channels of the source,
// groups of four warps go down kWideColumns columns of an image, row by row, and while a group
// multiplies one row the source's next is on its way. Rows of the source stay in a ring while taps
// meet them, and one more, which is turned before the row before it is multiplied, so that a group
// waits for its warps once a row. The tile's filter stays in shared memory, for all groups of a
// block and all of their strips.
//
// Rows of results begin anywhere in a sector of memory, so that a strip's borders would cut sectors
// in two, which two groups had to write. A strip computes as many more columns as complete its last
// sector instead, and leaves to the strip before what lies before its own first sector.
#pragma once

#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/staged/wide_lines.h"

namespace haloconv::implicit_gemm {

// A group's row of a strip: each warp has all of its pixels, and some of the channels.
inline constexpr Tile kStripTile = {kWideColumns, 128, kWideColumns, 32};
// Three groups have registers enough for no spills in code for 9.0 alone, which other chips do not
// run.
HALOCONV_HOST_DEVICE constexpr int most_strip_groups(int compute_capability) {
  return compute_capability == 90 ? 3 : 2;
}
// The tile with the same filter, which computes what strips do not take.
inline constexpr Tile kStripPatch = {128, 128, 64, 64};

// Columns that are computed: all that a sector can have beyond a strip's.
HALOCONV_HOST_DEVICE constexpr int32_t strip_columns(int32_t element_bytes) {
  return kWideColumns + kSectorBytes / element_bytes;
}

// In shared memory a warp has so many lines of results at a time: of float32, whose lines are
// longer, half of those of a matrix instruction, which leaves room for the ring's additional row.
HALOCONV_HOST_DEVICE constexpr int strip_channels(int32_t element_bytes) {
  return element_bytes == 4 ? 8 : 16;
}
// They lie so far apart that what a warp stores at once, pairs of neighbours of eight lines that
// begin at sectors, is in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t strip_pitch(int32_t element_bytes) {
  return strip_columns(element_bytes) * element_bytes + kSectorBytes +
         (element_bytes == 4 ? 48 : 16);
}
HALOCONV_HOST_DEVICE constexpr int32_t strip_slices_bytes(int32_t element_bytes) {
  return kStripTile.threads() / 32 * strip_channels(element_bytes) * strip_pitch(element_bytes);
}

// A channel's line in a row of a strip, and what of it the strip writes. Places are bytes from the
// beginning of the sector in which the line begins; both ends of the line are multiples of words.
struct StripLine {
  int32_t begin, end;
  bool begins_row, ends_row;  // the strip has the row's first column; its last
  int32_t first_sector;       // that the line has from its beginning
  int32_t own_end;            // of the sectors that the strip writes

  // `left` is the number of columns from the strip's first to the end of the row.
  HALOCONV_HOST_DEVICE StripLine(int32_t begin, bool begins_row, int32_t left,
                                 int32_t element_bytes)
      : begin(begin), begins_row(begins_row), ends_row(left <= strip_columns(element_bytes)) {
    const int32_t columns = ends_row ? left : strip_columns(element_bytes);
    end = begin + (columns * element_bytes & -kWordBytes);
    first_sector = begin > 0 ? kSectorBytes : 0;
    own_end = first_sector + wide_bytes(element_bytes);
  }

  // A lane's vector, of as many lanes as kWideColumns columns have vectors. Sectors that the line
  // does not fill are written by words.
  HALOCONV_HOST_DEVICE int32_t vector(int32_t lane) const {
    return first_sector + lane * kVectorBytes;
  }
  HALOCONV_HOST_DEVICE bool has_vector(int32_t place) const {
    return (place | (kSectorBytes - 1)) < end;
  }

  // A lane's word of the sector in which the row begins, of as many lanes as a sector has words.
  static HALOCONV_HOST_DEVICE int32_t first_word(int32_t lane) { return lane * kWordBytes; }
  HALOCONV_HOST_DEVICE bool has_first_word(int32_t place) const {
    return begins_row && begin > 0 && place >= begin && place < end;
  }

  // The same of the sector in which it ends.
  HALOCONV_HOST_DEVICE int32_t last_word(int32_t lane) const {
    return (end & -kSectorBytes) + lane * kWordBytes;
  }
  HALOCONV_HOST_DEVICE bool has_last_word(int32_t place) const {
    return ends_row && place < end && is_own(place);
  }

  // Half of a word, behind the last.
  HALOCONV_HOST_DEVICE bool has_last_pixel(int32_t place) const {
    return ends_row && (is_own(place) || (begins_row && place < first_sector));
  }

 private:
  HALOCONV_HOST_DEVICE bool is_own(int32_t place) const {
    return place >= first_sector && place < own_end;
  }
};

// A launch by strips with the filter of `patches`, a launch by patches of kStripPatch; none where
// the source has several chunks of channels or the destination several phases, where rows do not
// consist of words, where products are many, or where a block has not enough shared memory.
std::optional<Arguments> make_strips(const Arguments& patches, int32_t element_bytes,
                                     const Chip& chip);

// The ring's rows, for taps that reach so many rows further.
HALOCONV_HOST_DEVICE constexpr int32_t ring_rows(int32_t reach) { return reach + 2; }

// Of a row of the source, of which each thread copies one place; a group has two.
inline constexpr int kStagedRows = 2;
Staging make_strip_staging(const Windows& ring, int32_t element_bytes, int32_t granule);

// Whether a launch with its operands can go by strips: else it goes by patches.
bool strips_take(const Arguments& args);

// Of the tile's filter: fragments.h.
HALOCONV_HOST_DEVICE constexpr int32_t strip_filter_bytes(int32_t depths) {
  return (depths + 1) * kStripTile.channels * 2 * kUnitBytes;
}
// Of a group's ring, staged rows and results.
int32_t strip_group_bytes(const Arguments& args, int32_t element_bytes);
int strip_shared_bytes(const Arguments& args, int32_t element_bytes);

}  // namespace haloconv::implicit_gemm
