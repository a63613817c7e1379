#include "conv2d/families/halo/tiles.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>

#include "conv2d/families/halo/flat_lines.h"
#include "conv2d/families/halo/tiling.h"

namespace haloconv::halo {

namespace {

bool has_instance(int instructions, int width, bool precise) {
  return precise ? instructions == 2 && width != 104 : instructions == 2 || width != 104;
}

// Pieces of one row, which the copy engine writes.
void add_copied_lines(std::vector<Tile>& tiles) {
  for (const Share share : {Share::kChannels, Share::kRows}) {
    tiles.push_back({.width = 64,
                     .instructions = 4,
                     .patches = false,
                     .images = 1,
                     .rows = 1,
                     .columns = 256,
                     .share = share,
                     .copied = true});
  }
}

// Those that run on from row to row.
template <class Shape>
void add_flat_lines(std::vector<Tile>& tiles) {
  tiles.push_back({.width = Shape::kWidth,
                   .instructions = Shape::kInstructions,
                   .patches = false,
                   .images = 1,
                   .rows = 1,
                   .columns = Shape::kColumns,
                   .copied = true});
}

// Pieces of several rows, which it writes too: of four rows, or patches.
void add_copied_rows(int width, std::vector<Tile>& tiles) {
  const auto add = [&](bool patches, int rows, int columns) {
    for (const Share share : {Share::kChannels, Share::kImages, Share::kRows, Share::kColumns}) {
      tiles.push_back({.width = width,
                       .instructions = 4,
                       .patches = patches,
                       .images = 1,
                       .rows = rows,
                       .columns = columns,
                       .share = share,
                       .copied = true});
    }
  };
  add(false, 4, width);
  for (const int across : {1, 2, 4}) add(true, width / 8 * 4 / across, 8 * across);
}

std::vector<Tile> make_tiles(bool precise) {
  std::vector<Tile> tiles;
  for (const int width : {64, 56, 104}) {
    for (const int instructions : {4, 2}) {
      if (!has_instance(instructions, width, precise)) continue;
      for (const bool patches : {true, false}) {
        const int rows = patches ? width / 8 : 1;
        const int columns = patches ? 8 : width;
        for (int images = 1; images <= instructions; images *= 2) {
          for (int down = 1; down * images <= instructions; down *= 2) {
            const int across = instructions / images / down;
            for (const Share share :
                 {Share::kChannels, Share::kImages, Share::kRows, Share::kColumns}) {
              tiles.push_back({.width = width,
                               .instructions = instructions,
                               .patches = patches,
                               .images = images,
                               .rows = down * rows,
                               .columns = across * columns,
                               .share = share});
            }
          }
        }
      }
    }
  }
  if (!precise) {
    add_copied_lines(tiles);
    add_flat_lines<FlatShape<2>>(tiles);
    add_flat_lines<FlatShape<4>>(tiles);
    add_copied_rows(56, tiles);
    add_copied_rows(64, tiles);
  }
  return tiles;
}

int32_t kind_of_fold(const Tile& tile) {
  const int of_width = tile.width == 64 ? 0 : tile.width == 56 ? 2 : 4;
  const int instance = copies_lines(tile) ? 5
                       : tile.copied      ? 6 + of_width / 2
                                          : of_width + tile.instructions / 4;
  return (instance * 2 + (tile.patches || is_flat(tile))) * 4 + static_cast<int>(tile.share);
}

int32_t of_block(const Tile& tile, int count, Share share) {
  return count * (tile.share == share ? kMathGroups : 1);
}
int32_t rows_of_block(const Tile& tile) { return of_block(tile, tile.rows, Share::kRows); }
TileSizes::Columns columns_of_block(const Tile& tile) {
  return {of_block(tile, tile.columns, Share::kColumns), tile.width};
}

std::vector<TilesOfInstance> make_instances(const std::vector<Tile>& tiles) {
  std::vector<TilesOfInstance> instances;
  for (int32_t i = 0; i < std::ssize(tiles); ++i) {
    const Tile &tile = tiles[i], &before = tiles[std::max(i - 1, 0)];
    if (i == 0 || tile.width != before.width || tile.instructions != before.instructions ||
        tile.copied != before.copied) {
      instances.emplace_back();
    }
    TilesOfInstance& instance = instances.back();
    const bool shares_channels = tile.share == Share::kChannels;
    (shares_channels ? instance.sharing_channels : instance.others).push_back({i, false});
  }
  for (TilesOfInstance& instance : instances) {
    const auto block_of = [&](const ListedTile& listed) {
      const Tile& tile = tiles[listed.index];
      return std::tuple(of_block(tile, tile.images, Share::kImages), rows_of_block(tile),
                        columns_of_block(tile).columns, is_line(tile));
    };
    std::vector<ListedTile>& list = instance.others;
    std::stable_sort(list.begin(), list.end(), [&](const ListedTile& a, const ListedTile& b) {
      return block_of(a) < block_of(b);
    });
    for (size_t i = 1; i < list.size(); ++i) {
      list[i].repeats =
          suits_all_launches(tiles[list[i].index]) && block_of(list[i]) == block_of(list[i - 1]);
    }
  }
  return instances;
}

template <class Size>
int32_t place_of(const Size& size, const std::vector<Size>& sizes) {
  return static_cast<int32_t>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin());
}

template <class Size>
void add_once(const Size& size, std::vector<Size>& sizes) {
  if (place_of(size, sizes) == std::ssize(sizes)) sizes.push_back(size);
}

TileSizes make_sizes(const std::vector<Tile>& tiles) {
  TileSizes sizes;
  for (const Tile& tile : tiles) {
    add_once(rows_of_block(tile), sizes.rows);
    add_once(columns_of_block(tile), sizes.columns);
  }
  return sizes;
}

std::vector<TileFacts> make_facts(const std::vector<Tile>& tiles, const TileSizes& sizes) {
  std::vector<TileFacts> facts;
  for (const Tile& tile : tiles) {
    const int32_t images = of_block(tile, tile.images, Share::kImages);
    const int32_t rows = rows_of_block(tile);
    const TileSizes::Columns columns = columns_of_block(tile);
    facts.push_back({.kind = kind_of_fold(tile),
                     .rows = rows,
                     .columns = columns.columns,
                     .row_size = place_of(rows, sizes.rows),
                     .column_size = place_of(columns, sizes.columns),
                     .log_images = std::countr_zero(static_cast<uint32_t>(images)),
                     .may_split = may_split(tile.instructions, tile.width) && !tile.copied,
                     .is_line = is_line(tile),
                     .is_flat = is_flat(tile),
                     .suits_all = suits_all_launches(tile)});
  }
  return facts;
}

}  // namespace

const std::vector<Tile>& tiles_of(bool precise) {
  static const std::vector<Tile> tiles = make_tiles(false), precise_tiles = make_tiles(true);
  return precise ? precise_tiles : tiles;
}

const std::vector<TilesOfInstance>& instances_of(bool precise) {
  static const std::vector<TilesOfInstance> instances = make_instances(tiles_of(false)),
                                            precise_instances = make_instances(tiles_of(true));
  return precise ? precise_instances : instances;
}

const TileSizes& sizes_of(bool precise) {
  static const TileSizes sizes = make_sizes(tiles_of(false)),
                         precise_sizes = make_sizes(tiles_of(true));
  return precise ? precise_sizes : sizes;
}

const std::vector<TileFacts>& facts_of(bool precise) {
  static const std::vector<TileFacts> facts = make_facts(tiles_of(false), sizes_of(false)),
                                      precise_facts = make_facts(tiles_of(true), sizes_of(true));
  return precise ? precise_facts : facts;
}

}  // namespace haloconv::halo
