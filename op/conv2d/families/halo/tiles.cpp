#include "conv2d/families/halo/tiles.h"

#include <bit>

#include "conv2d/families/halo/flat_lines.h"

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

std::vector<TileFacts> make_facts(const std::vector<Tile>& tiles) {
  std::vector<TileFacts> facts;
  for (const Tile& tile : tiles) {
    const int images = tile.images * (tile.share == Share::kImages ? kMathGroups : 1);
    facts.push_back({.kind = kind_of_fold(tile),
                     .log_images = std::countr_zero(static_cast<uint32_t>(images)),
                     .may_split = may_split(tile.instructions, tile.width) && !tile.copied});
  }
  return facts;
}

}  // namespace

const std::vector<Tile>& tiles_of(bool precise) {
  static const std::vector<Tile> tiles = make_tiles(false), precise_tiles = make_tiles(true);
  return precise ? precise_tiles : tiles;
}

const std::vector<TileFacts>& facts_of(bool precise) {
  static const std::vector<TileFacts> facts = make_facts(tiles_of(false)),
                                      precise_facts = make_facts(tiles_of(true));
  return precise ? precise_facts : facts;
}

}  // namespace haloconv::halo
