// Results of 16-bit types that the copy engine writes: of a tile that is a piece of one row, a
// line, which is staged as the engine takes it.
//
// Memory is written in sectors of 32 bytes, and a line may begin and end within one. A block
// therefore goes along a row, and on to the next one where rows follow each other in memory: what a
// line has of its last sector, the carry, is written with the line after it. The engine writes
// whole sectors alone. Where a block's run of lines begins or ends, math warps write parts of
// sectors from their registers:
//
//   memory's sectors      |       |       |       |       |       |       |
//   a run's first line        .................
//                             hhhh wwwwwwwwwwwwwww c
//   the one after it                            .................
//                                               wwwwwwwwwwwwwwwww ccc
//   h: head, w: whole sectors, c: carry
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

inline constexpr int kLinePixels = 256;
inline constexpr int kLineSectors = kLinePixels / kSectorPixels;
// Bytes from one channel to the next in shared memory: room for a line that begins within a sector,
// and, in words, 16 modulo 32, so that of eight channels' words no more than two meet a bank.
inline constexpr int kStagedLineBytes = 576;
static_assert(kStagedLineBytes >= (kLineSectors + 1) * kSectorBytes);
static_assert(kCopiedChannels / kMaxPlaces * kStagedLineBytes % kBoxAlignment == 0);
// Of a warp: behind its lines, four words of carry of each lane.
inline constexpr int kCarryBytes = 32 * 16;
inline constexpr int kStagedWarpBytes = kCopiedChannels * kStagedLineBytes + kCarryBytes;

// Pixels from a sector's beginning to an address.
HALOCONV_HOST_DEVICE inline int32_t pixel_in_sector(uint32_t address) {
  return static_cast<int32_t>(address % kSectorBytes / 2);
}

// How a channel's line is staged.
struct StagedLine {
  int32_t first;  // where the line's first pixel lies; negative: after a head, which is not staged
  int32_t sectors;  // whole ones, from the beginning of what is staged
};

// `in_sector`: pixels of memory's sector before the line's first. `overlap`: pixels at the line's
// beginning that the line before it, which it continues, has too.
HALOCONV_HOST_DEVICE inline StagedLine stage_line(int32_t in_sector, bool is_continued,
                                                  int32_t overlap) {
  // Else the first sector is not this line's, or the one before has written all of it.
  const bool has_sector = in_sector == 0 || (is_continued && in_sector + overlap < kSectorPixels);
  return has_sector ? StagedLine{in_sector, kLineSectors}
                    : StagedLine{in_sector - kSectorPixels, kLineSectors - 1};
}

// Of a line's last sector's worth of pixels, those from this one on are its carry.
HALOCONV_HOST_DEVICE inline int32_t first_of_carry(int32_t in_sector) {
  return kSectorPixels - in_sector;
}

// Where a pixel of the carry, counted as these are, is staged with the line that continues it;
// negative: not at all.
HALOCONV_HOST_DEVICE inline int32_t staged_of_carry(int32_t pixel, int32_t in_sector,
                                                    int32_t overlap) {
  return in_sector + overlap - kSectorPixels + pixel;
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

// Rows of tiles, of all images. There must not be more blocks: one without tiles would never end.
HALOCONV_HOST_DEVICE inline uint32_t rows_of(const Arguments& args) {
  return args.tiles / static_cast<uint32_t>(args.w.tiles);
}

// How many tiles, one after the other, a block takes at a time: whole rows, but not so many that
// blocks end at different times. On an H200 `square_3x3` in bfloat16 took 1653 us by 16 rows and
// 1693 by 4.
inline constexpr uint32_t kMostRowsOfRun = 16;
inline constexpr uint32_t kLeastRunsOfBlock = 7;
HALOCONV_HOST_DEVICE inline uint32_t tiles_of_run(const Arguments& args, uint32_t blocks) {
  const uint32_t rows = rows_of(args) / (blocks * kLeastRunsOfBlock);
  return static_cast<uint32_t>(args.w.tiles) * (rows < 1                ? 1
                                                : rows < kMostRowsOfRun ? rows
                                                                        : kMostRowsOfRun);
}

// Whether the engine can write the results of such a tile.
bool may_copy_lines(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                    const AxisPart& column);

}  // namespace haloconv::halo
