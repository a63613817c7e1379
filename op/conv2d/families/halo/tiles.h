// The tiles that the kernels have.
#pragma once

#include <cstdint>
#include <vector>

#include "conv2d/families/halo/plan.h"

namespace haloconv::halo {

// Every arrangement of a warpgroup's instructions, those of one instance of the kernel together.
const std::vector<Tile>& tiles_of(bool precise);

// One of tiles_of(), in a list where tiles whose blocks are alike follow each other.
struct ListedTile {
  int32_t index;
  bool repeats;  // the blocks of the tile before it: all that launches need and take is the same
};
// The tiles of one instance of the kernel.
struct TilesOfInstance {
  std::vector<ListedTile> sharing_channels, others;
};
const std::vector<TilesOfInstance>& instances_of(bool precise);

// Along an axis the tiles of blocks have few sizes: each of them, of columns with the width of the
// instruction.
struct TileSizes {
  struct Columns {
    int32_t columns, width;
    bool operator==(const Columns&) const = default;
  };
  std::vector<int32_t> rows;
  std::vector<Columns> columns;
};
const TileSizes& sizes_of(bool precise);

// What planners, which look at many tiles, need of each whatever the problem.
struct TileFacts {
  int32_t kind;                   // of one fold, less than kKindsOfFold
  int32_t rows, columns;          // of a block
  int32_t row_size, column_size;  // their places among sizes_of()
  int32_t log_images;             // of a block's images
  bool may_split, is_line, is_flat;
  bool suits_all;  // tiling.h: suits_all_launches()
};
inline constexpr int32_t kKindsOfFold = 8 * 2 * 4;  // instances, patches or rows, shares

// Of tiles_of().
const std::vector<TileFacts>& facts_of(bool precise);

}  // namespace haloconv::halo
