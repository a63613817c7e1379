// The tiles that there are kernels for, and what their columns go through.
#pragma once

#include <span>

#include "conv2d/families/channels_last_wgrad/layout.h"

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr Tile kTiles[] = {
    {1, 1, 1, 1, 64},
    {2, 1, 1, 1, 64},
    {1, 1, 1, 2, 64},
    {2, 1, 1, 2, 64},
    {2, 1, 1, 3, 64},
    {2, 1, 1, 4, 64},
    {2, 1, 2, 3, 64},
    {1, 2, 1, 2, 64},
    {1, 3, 1, 3, 64},
    {1, 1, 1, 3, 64},
    {3, 1, 1, 1, 64},
    {3, 1, 1, 2, 64},
    // Of few channels.
    {1, 3, 1, 3, 32},
    {1, 2, 3, 3, 32},
    {1, 3, 1, 5, 32},
    {2, 1, 3, 3, 16},
};

// The same where grad_output has its rows innermost.
inline constexpr Tile kRowsTiles[] = {
    {1, 2, 3, 3, 32}, {1, 3, 1, 5, 32}, {1, 3, 1, 3, 64}, {2, 1, 1, 3, 64}, {2, 1, 2, 3, 64},
};

constexpr std::span<const Tile> tiles_of(bool output_rows) {
  return output_rows ? std::span<const Tile>(kRowsTiles) : std::span<const Tile>(kTiles);
}

struct TileKind {
  Tile tile;
  Columns columns;
};

// Channels, taps of a filter row and rows of taps that a tile of a kind has.
struct ColumnSpan {
  int32_t channels, taps = 1, rows = 1;

  constexpr explicit ColumnSpan(const TileKind& kind) : channels(kind.tile.width) {
    add(kind.columns.chunk, kind.tile.chunks);
    add(kind.columns.instruction, kind.tile.instructions);
    add(kind.columns.warpgroup, kind.tile.column_warpgroups);
  }

 private:
  constexpr void add(Along along, int32_t count) {
    (along == Along::kChannels ? channels : along == Along::kTaps ? taps : rows) *= count;
  }
};

inline constexpr Along kC = Along::kChannels, kS = Along::kTaps, kR = Along::kRows;

inline constexpr TileKind kTileKinds[] = {
    // One tap.
    {{1, 1, 1, 1, 64}, {kC, kC, kC}},
    {{2, 1, 1, 1, 64}, {kC, kC, kC}},
    {{1, 1, 1, 2, 64}, {kC, kC, kC}},
    {{2, 1, 1, 2, 64}, {kC, kC, kC}},
    {{2, 1, 1, 3, 64}, {kC, kC, kC}},
    {{2, 1, 1, 4, 64}, {kC, kC, kC}},
    {{2, 1, 2, 3, 64}, {kC, kC, kC}},
    {{1, 2, 1, 2, 64}, {kC, kC, kC}},
    {{1, 3, 1, 3, 64}, {kC, kC, kC}},
    {{1, 1, 1, 3, 64}, {kC, kC, kC}},
    {{3, 1, 1, 1, 64}, {kC, kC, kC}},
    {{3, 1, 1, 2, 64}, {kC, kC, kC}},
    // Two to four taps of a filter row.
    {{1, 1, 1, 3, 64}, {kC, kC, kS}},
    {{2, 1, 1, 2, 64}, {kC, kC, kS}},
    {{2, 1, 1, 3, 64}, {kC, kC, kS}},
    {{2, 1, 2, 3, 64}, {kC, kC, kS}},
    {{2, 1, 1, 4, 64}, {kC, kC, kS}},
    // Taps of two, three or five filter rows.
    {{1, 3, 1, 3, 64}, {kR, kC, kS}},
    {{1, 2, 1, 2, 64}, {kR, kC, kS}},
    {{1, 3, 1, 3, 32}, {kR, kC, kS}},
    {{1, 2, 3, 3, 32}, {kR, kS, kS}},
    {{1, 3, 1, 5, 32}, {kS, kC, kR}},
    {{2, 1, 3, 3, 16}, {kC, kR, kS}},
};

// Where grad_output has its rows innermost: taps share boxes, for which the input is copied.
inline constexpr TileKind kRowsTileKinds[] = {
    {{1, 2, 3, 3, 32}, {kR, kS, kS}}, {{1, 3, 1, 5, 32}, {kS, kC, kR}},
    {{1, 3, 1, 3, 64}, {kR, kC, kS}}, {{2, 1, 1, 3, 64}, {kC, kC, kS}},
    {{2, 1, 2, 3, 64}, {kC, kC, kS}},
};

constexpr std::span<const TileKind> tile_kinds_of(bool output_rows) {
  return output_rows ? std::span<const TileKind>(kRowsTileKinds)
                     : std::span<const TileKind>(kTileKinds);
}

// Whether any kind with the tile has one tap, or any has several.
constexpr bool has_kind_of(const Tile& tile, bool output_rows, bool one_tap) {
  for (const TileKind& kind : tile_kinds_of(output_rows)) {
    const ColumnSpan span(kind);
    if (kind.tile == tile && (span.taps * span.rows == 1) == one_tap) return true;
  }
  return false;
}

}  // namespace haloconv::sm90::channels_last_wgrad
