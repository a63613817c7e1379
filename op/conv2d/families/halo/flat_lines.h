// Tiles that run on from row to row, of 3x3 filters without padding: the copy engine writes their
// results, in whole sectors alone.
//
// Where rows follow each other in memory, in the source and in the result, a plane is one long row.
// A tile's pixels are positions of the source's plane, as many as instructions have, from any of
// them on. Two positions at each row's end have no output, the gap: results behind it are staged
// two pixels earlier, and so follow each other as in memory.
//
// Memory is written in sectors of 32 bytes. A tile computes a sector more than it writes, so that
// of each channel, wherever its plane begins, it can write whole sectors, and the tile after it
// goes on where it ends. Blocks thus take tiles in the order of memory, each of them as it comes:
//
//   memory's sectors   |       |       |       |       |       |
//   a tile computes       .........................
//   and writes                 wwwwwwwwwwwwwwwww
//   the next one                            .........................
//                                               wwwwwwwwwwwwwwwww
//
// What lies before a plane's first whole sector, and after its last, math warps write from their
// registers.
//
// Here what the host and the kernel share, plain arithmetic that is tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/families/halo/copied_lines.h"
#include "conv2d/families/halo/folded_problem.h"
#include "conv2d/families/halo/row_order.h"

namespace haloconv::halo {

inline constexpr int kFlatGap = 2;  // positions of the source at a row's end without an output

// A flat tile of elements of so many bytes.
template <int kElementBytes>
struct FlatShape {
  static constexpr int kSector = kSectorBytes / kElementBytes;  // pixels
  static constexpr int kInstructions = kElementBytes == 4 ? 2 : 4;
  static constexpr int kWidth = kElementBytes == 4 ? 104 : 64;
  static constexpr int kPixels = kInstructions * kWidth;  // that are computed
  static constexpr int kColumns = kPixels - kSector;      // that are written
  static_assert(kColumns % kSector == 0);
  static constexpr int kChunks = kElementBytes == 4 ? 2 : 1;  // of input channels
  // Bytes from one channel to the next in shared memory: all that is computed and, behind it, what
  // the next channel has before its first whole sector. The engine leaves out both what is before
  // it and what is after the last.
  static constexpr int kStagedBytes = kSectorBytes + kPixels * kElementBytes;
  static constexpr int kMostPlaces = kElementBytes == 4 ? 2 : 4;
  static_assert(kCopiedChannels / kMostPlaces * kStagedBytes % kBoxAlignment == 0);
  static constexpr int kWarpBytes = kCopiedChannels * kStagedBytes;
  // Of a block: before the first channel as well.
  static constexpr int kBlockBytes = kBoxAlignment + kMathWarps * kWarpBytes;

  // Pixels from an address to where a sector begins.
  HALOCONV_HOST_DEVICE static int32_t before_sector(uint32_t address) {
    return static_cast<int32_t>((0u - address) % kSectorBytes) / kElementBytes;
  }

  // 2^shift channels' planes are whole sectors; negative: there is no such shift in reach.
  static int32_t place_shift(int64_t plane_elements) {
    for (int32_t shift = 0; 1 << shift <= kMostPlaces; ++shift) {
      if ((plane_elements << shift) % kSector == 0) return shift;
    }
    return -1;
  }

  // The order with which a warp's stores of a half of the accumulators, pairs of pixels of 8
  // channels, meet banks of shared memory as seldom as possible. Where planes begin at as many
  // places as they may, the boxes of neighbouring channels begin at one bank, and their rows would
  // meet. The rows of every second channel follow each other in one box, or, of 16 bits, lie in
  // two that are shifted by half a sector. On an H200 `square_3x3` in TF32 took 2760 us so, and
  // 2947 in the other order.
  static RowOrder row_order(const LinePlaces& places) {
    return places.count() == kMostPlaces ? kInterleavedRows : RowOrder{};
  }
};

inline bool is_flat(const Tile& tile) {
  return copies_lines(tile) && tile.columns < tile.instructions * tile.width;
}

// Where a tile's pixels lie in the result's plane.
struct FlatPixels {
  int32_t first;       // the tile's first output
  int32_t before_gap;  // pixels of the tile before the gap

  // From the tile's first output to a pixel that is none of the gap's.
  HALOCONV_HOST_DEVICE int32_t distance(int32_t pixel) const {
    return pixel - (pixel > before_gap ? kFlatGap : 0);
  }
};

// Of rows of so many outputs; `position`: the tile's first, which is in this row of positions.
HALOCONV_HOST_DEVICE inline FlatPixels flat_pixels(int32_t position, int32_t row, int32_t outputs) {
  return {position - row * kFlatGap, row * (outputs + kFlatGap) + outputs - position};
}

// The axes of a launch whose rows are one long row: the taps' rows lie above each other as before.
struct FlatParts {
  AxisPart row, column;
};

// None where the launch is none for such tiles.
std::optional<FlatParts> flat_parts(const FoldedProblem& problem, const Tile& tile,
                                    const AxisPart& row, const AxisPart& column);

}  // namespace haloconv::halo
