// Results of 16-bit types that the copy engine writes: of a tile that is a piece of one row, a
// line, which is staged as the engine takes it.
//
// Memory is written in sectors of 32 bytes, and a piece of a row begins and ends within one. A
// line's sectors but the last, or all that begin in it where none is cut, are `inside`: they lie
// side by side in shared memory, a box of the engine's. What is left, as much as a sector has, are
// the line's `ends`, which the math warps write themselves from their registers:
//
//   memory's sectors      |       |       |       |       |
//   a line                    .................
//   ends, inside              eeee iiiiiiiiiiii e
//
// Planes of channels begin at different places of a sector, but every second or every fourth at the
// same: such channels have one tensor map, and one box of a warp's 16 channels.
//
// Here what the host and the kernel share, plain arithmetic that is tested without a GPU.
#pragma once

#include <cstdint>

#include "conv2d/families/halo/arguments.h"
#include "conv2d/families/halo/copied_shape.h"
#include "conv2d/families/halo/folded_problem.h"

namespace haloconv::halo {

inline constexpr int kSectorBytes = 32;
inline constexpr int kSectorPixels = kSectorBytes / 2;
inline constexpr int kMaxPlaces = 4;  // of a sector, at which planes of channels begin

// Of a line, how many are inside, and the bytes that these take in shared memory.
inline constexpr int kLinePixels = 256, kInsidePixels = kLinePixels - kSectorPixels;
inline constexpr int kInsideBytes = kInsidePixels * 2;
static_assert(kCopiedChannels / kMaxPlaces * kInsideBytes % kBoxAlignment == 0);

// Pixels from an address to the next sector's beginning: those of the end that comes first.
HALOCONV_HOST_DEVICE inline int32_t pixels_to_sector(uint32_t address) {
  return static_cast<int32_t>((0u - address) % kSectorBytes / 2);
}

// Of a line's pixel, below a sector's, and of the one that lies as far behind the pixels that all
// lines have inside, `first` is an end and the other is inside: this tells which.
HALOCONV_HOST_DEVICE inline bool first_is_end(int32_t pixel, int32_t to_sector) {
  return pixel < to_sector;
}

// Where a warp's channels of a line lie in its part of shared memory.
struct LinePlaces {
  int32_t shift;  // channels that begin at the same place of a sector are 2^shift apart

  HALOCONV_HOST_DEVICE int32_t count() const { return 1 << shift; }
  HALOCONV_HOST_DEVICE int32_t channels_of_box() const { return kCopiedChannels >> shift; }
  // Rows of shared memory before a channel's.
  HALOCONV_HOST_DEVICE int32_t row_of(int32_t channel) const {
    return (channel & (count() - 1)) * channels_of_box() + (channel >> shift);
  }
};

// 2^shift channels' planes are whole sectors; negative: there is no such shift in reach.
int32_t place_shift(int64_t plane_elements);

// Whether the engine can write the results of such a tile.
bool may_copy_lines(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                    const AxisPart& column);

}  // namespace haloconv::halo
