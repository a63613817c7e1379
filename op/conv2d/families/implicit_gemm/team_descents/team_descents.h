// Descents of a team: where the source has few channels and the destination many, 3x3 taps go by
// blocks whose eight warps go down the same columns together, row by row.
//
// A warp has 16 channels, and keeps their filter in registers for all that it computes: of shared
// memory only pixels are read. Each is multiplied with the three taps of a row at once. That makes
// three sums for a pixel, which belong to three neighbouring results: lanes exchange those of the
// few that they do not have themselves. The source's rows come as they lie in memory, and are
// turned, and rounded, to a ring of four, of which three are multiplied.
//
// Results go straight from registers to memory, many neighbours of a row of each channel, and by
// whole sectors: each warp's row begins where a sector does. Its channels, each eighth of the
// tile's, have their sectors at the same columns, other warps' channels may have them at others.
// Matrix instructions compute neighbouring results in such an order that a lane has 16 bytes of
// them, and four lanes 64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "chip/chip.h"
#include "conv2d/families/implicit_gemm/arguments.h"
#include "conv2d/families/implicit_gemm/descents/descents.h"
#include "conv2d/families/implicit_gemm/strips/strips.h"

namespace haloconv::implicit_gemm {

inline constexpr int kTeamTaps = kDescentTaps;  // of a column and of a row
inline constexpr int kTeamChannels = 16;        // of the source, at most
inline constexpr int kTeamWarps = 8;
inline constexpr int kTeamTileChannels = kTeamWarps * 16;
// The tile that computes what teams do not take.
inline constexpr Tile kTeamPatch = kStripPatch;
static_assert(kTeamPatch.channels == kTeamTileChannels);

// The channel of the tile of a row of a warp's matrix instruction.
HALOCONV_HOST_DEVICE constexpr int32_t team_channel(int32_t warp, int32_t row) {
  return warp + kTeamWarps * row;
}

HALOCONV_HOST_DEVICE constexpr int32_t sector_elements(int32_t element_bytes) {
  return kSectorBytes / element_bytes;
}
// Neighbouring results of a lane; and of four lanes, by so many matrix instructions of 8 pixels.
HALOCONV_HOST_DEVICE constexpr int32_t team_vector(int32_t element_bytes) {
  return kVectorBytes / element_bytes;
}
HALOCONV_HOST_DEVICE constexpr int32_t team_group(int32_t element_bytes) {
  return 4 * team_vector(element_bytes);
}
HALOCONV_HOST_DEVICE constexpr int32_t team_blocks(int32_t element_bytes) {
  return team_group(element_bytes) / 8;
}

// Of a group, the pixel of a column of one of its instructions.
HALOCONV_HOST_DEVICE constexpr int32_t team_pixel(int32_t block, int32_t column,
                                                  int32_t element_bytes) {
  return column / 2 * team_vector(element_bytes) + block * 2 + column % 2;
}
// Where a pixel of a row is kept, so that the eight of an instruction lie in all banks wherever the
// group begins.
HALOCONV_HOST_DEVICE constexpr int32_t team_place(int32_t pixel, int32_t element_bytes) {
  return pixel ^ (pixel >> 3 & (team_blocks(element_bytes) - 1)) << 1;
}

// Columns of results that a team computes: whole groups. All together have room for what rows begin
// behind a sector.
HALOCONV_HOST_DEVICE constexpr int32_t team_columns(int32_t pixels, int32_t teams_of_row,
                                                    int32_t element_bytes) {
  const int32_t group = team_group(element_bytes);
  const int32_t all = pixels + sector_elements(element_bytes) - 1;
  return (all + teams_of_row * group - 1) / (teams_of_row * group) * group;
}

// The memory of a team of so many columns.
struct TeamMemory {
  int32_t pixels;  // staged, from a multiple of 16 bytes on: all that the warps' results meet
  int32_t places;  // of them in a turned row; kTurnedPixels are turned at a time
  int32_t unit_bytes, row_bytes;      // of a turned row, unit by unit
  int32_t line_bytes, staging_bytes;  // of a staged row, channel by channel

  static constexpr int kRows = 4, kStagedRows = 2;

  HALOCONV_HOST_DEVICE constexpr TeamMemory(int32_t columns, int32_t element_bytes)
      : pixels(columns + sector_elements(element_bytes) - 1 + kTeamTaps - 1 +
               2 * (kUnitBytes / element_bytes - 1)),
        places((pixels + kTurnedPixels - 1) / kTurnedPixels * kTurnedPixels),
        unit_bytes(places * kUnitBytes),
        row_bytes(units(element_bytes) * unit_bytes),
        // Eight channels' 16 bytes, which a matrix load reads, lie in all banks.
        line_bytes((places * element_bytes + 127) / 128 * 128 + kUnitBytes),
        staging_bytes(kTeamChannels * line_bytes) {
    pixels &= -(kUnitBytes / element_bytes);
  }

  static HALOCONV_HOST_DEVICE constexpr int32_t units(int32_t element_bytes) {
    return kTeamChannels * element_bytes / kUnitBytes;
  }
  HALOCONV_HOST_DEVICE constexpr int32_t bytes() const {
    return kTeamTileChannels * 8 + kRows * row_bytes + kStagedRows * staging_bytes;
  }
};
int32_t team_shared_bytes(const Arguments& args, int32_t element_bytes);

// A launch by teams instead of `patches`, a launch by patches of kTeamPatch; none where the taps
// are not 3x3, next to each other, where the source has more channels, the destination several
// phases, where rows of the source do not begin at words or a warp's channels not alike, or where a
// block has not enough shared memory.
std::optional<Arguments> make_team_descents(const Arguments& patches, int32_t element_bytes,
                                            const Chip& chip);

}  // namespace haloconv::implicit_gemm
