#include "conv2d/families/halo/tiles.h"

namespace haloconv::halo {

namespace {

bool has_instance(int instructions, int width, bool precise) {
  return precise ? instructions == 2 && width != 104 : instructions == 2 || width != 104;
}

// Pieces of one row, which the copy engine writes.
void add_copied_lines(int instructions, int width, std::vector<Tile>& tiles) {
  for (const SourceBands bands : {SourceBands{}, SourceBands{.lines = 64},
                                  SourceBands{.lines = 64, .results_leave_first = true},
                                  SourceBands{.lines = 160, .results_leave_first = true}}) {
    for (const Share share : {Share::kChannels, Share::kRows}) {
      tiles.push_back({.width = width,
                       .instructions = instructions,
                       .patches = false,
                       .images = 1,
                       .rows = 1,
                       .columns = instructions * width,
                       .share = share,
                       .copied = true,
                       .bands = bands});
    }
  }
}

// Pieces of neighbouring rows, one of each instruction, which it writes too.
void add_copied_rows(int instructions, int width, std::vector<Tile>& tiles) {
  for (const Share share : {Share::kChannels, Share::kImages, Share::kRows, Share::kColumns}) {
    tiles.push_back({.width = width,
                     .instructions = instructions,
                     .patches = false,
                     .images = 1,
                     .rows = instructions,
                     .columns = width,
                     .share = share,
                     .copied = true});
  }
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
    add_copied_lines(2, 104, tiles);
    add_copied_lines(4, 64, tiles);
    add_copied_rows(4, 56, tiles);
    add_copied_rows(4, 64, tiles);
  }
  return tiles;
}

}  // namespace

const std::vector<Tile>& tiles_of(bool precise) {
  static const std::vector<Tile> tiles = make_tiles(false), precise_tiles = make_tiles(true);
  return precise ? precise_tiles : tiles;
}

}  // namespace haloconv::halo
