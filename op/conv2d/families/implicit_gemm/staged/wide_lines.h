// How the results of a patch of kWideColumns go from shared memory to memory: of each channel a
// line of neighbouring pixels.
//
// Lines begin anywhere in a sector of memory. In shared memory a line is as far behind a sector's
// beginning, so that words, vectors of 16 bytes and sectors lie there as they do in memory. Sectors
// that a line fills are written by vectors, and what it has of others by words, so that no sector
// has two writers in a warp.
#pragma once

#include <cstdint>

#include "conv2d/families/implicit_gemm/staged/staging.h"
#include "conv2d/families/implicit_gemm/windows/windows.h"
#include "conv2d/geometry/fast_div.h"

namespace haloconv::implicit_gemm {

inline constexpr int kSectorBytes = 32, kVectorBytes = 16;
inline constexpr int kLineChannels = 32;  // that a warp writes at a time

// Bytes of a line of all columns.
HALOCONV_HOST_DEVICE constexpr int32_t wide_bytes(int32_t element_bytes) {
  return kWideColumns * element_bytes;
}

// From one channel's line to the next in shared memory: a warp's sums of lines that begin at
// sectors lie in all banks.
HALOCONV_HOST_DEVICE constexpr int32_t wide_pitch(int32_t element_bytes) {
  return wide_bytes(element_bytes) + kSectorBytes + kVectorBytes;
}

// Of a block's warps, behind the factors.
HALOCONV_HOST_DEVICE constexpr int32_t wide_slice_bytes(int32_t element_bytes) {
  return kLineChannels * wide_pitch(element_bytes);
}

// Places are bytes from the beginning of the sector in which the line begins. Both ends of the line
// are multiples of words.
struct WideLine {
  int32_t begin, end;

  // A lane's vector, of as many lanes as a line of all columns has vectors, and whether the line
  // fills its sector.
  HALOCONV_HOST_DEVICE int32_t vector(int32_t lane) const {
    return lane * kVectorBytes + (begin > 0 ? kSectorBytes : 0);
  }
  HALOCONV_HOST_DEVICE bool has_vector(int32_t place) const {
    return (place | (kSectorBytes - 1)) < end;
  }

  // A lane's word, of as many lanes as a sector has words, in the first sector, and whether the
  // line has it and does not fill the sector from its beginning.
  HALOCONV_HOST_DEVICE static int32_t first_word(int32_t lane) { return lane * kWordBytes; }
  HALOCONV_HOST_DEVICE bool has_first_word(int32_t place) const {
    return begin > 0 && place >= begin && place < end;
  }

  // The same in the last sector, where it is another, or begins with the line.
  HALOCONV_HOST_DEVICE int32_t last_word(int32_t lane) const {
    return (end & -kSectorBytes) + lane * kWordBytes;
  }
  HALOCONV_HOST_DEVICE bool has_last_word(int32_t place) const {
    return place >= (begin > 0 ? kSectorBytes : 0) && place < end;
  }

  // Of a line of all columns that does not begin with a sector: it has as many words in its first
  // and its last sector as a sector has.
  HALOCONV_HOST_DEVICE int32_t edge_word(int32_t lane, int32_t element_bytes) const {
    const int32_t place = first_word(lane);
    return place >= begin ? place : place + wide_bytes(element_bytes);
  }
};

}  // namespace haloconv::implicit_gemm
