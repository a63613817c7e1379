// What the kernels are given. Tensor maps come beside it.
//
// The sum runs over the output's pixels. They are cut into patches of `columns` x `rows` x `images`
// pixels, 16 * k_steps of them. For a patch a stage of the ring in shared memory holds
//   - grad_output: for each 64 of the tile's output channels a box [pixel][64 channels] or, where
//     its rows are innermost, [row][64 channels][64 columns];
//   - input: for each `width` of the tile's channels a box of the pixels that the tile's taps meet,
//     [pixel][width channels], where a tap is a shift by whole pixels.
// Pixels lie as [image][row][column], or as [row][column][image] (layout.h).
// Zeros stand for what is outside of a tensor. The operands lie with their 64 or `width` channels
// innermost, swizzled, which is how the matrix instruction takes them: eight pixels are one group
// of its depth. So does it take grad_output with 64 columns innermost, which no tap shifts. Groups
// that grad_output has not are left out: their zeros, times an infinity of the input, would be NaN.
// What is done about those of a group that a row ends in, row_ends.cuh says.
#pragma once

#include <cstdint>

#include "conv2d/device/pixel_patches.h"
#include "conv2d/families/channels_last_wgrad/tile.h"
#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::channels_last_wgrad {

inline constexpr int32_t kMostClusterBlocks = 8;

// What moves from one column warpgroup, instruction or chunk of a tile to the next: channels, taps
// of a filter row, or rows of the filter, which with strides pass over some (layout.h); and how far
// apart their pixels lie in a stage.
struct ColumnAxis {
  int32_t channels = 0, taps = 0, rows = 0;
  int32_t bytes = 0;
};

struct ColumnAxes {
  ColumnAxis warpgroup, instruction, chunk;
};

// How many of a patch's groups of eight pixels are multiplied, from the first on: of whole patches,
// and of the last ones along their axis. An odd group is multiplied together with one of zeros,
// which the block keeps for the input.
struct GroupCounts {
  int32_t whole, last;
};

// What of a patch is multiplied: groups and, where grad_output has its rows innermost, rows of
// them.
struct PatchExtent {
  int32_t groups, rows;
  bool ends_row;  // the patch is the last of a row of patches
};

// Where rows of grad_output end amid eight pixels, what zeros beyond them may meet of the input
// (row_ends.cuh): of a row of its box in the last patch of a row, by the tile's first tap.
struct RowEndPlaces {
  int32_t first = 0;  // 0: rows end with whole eights, or are not what eights are made of
  int32_t end = 0;    // no tap of the tile meets what is further on
  int32_t box_w = 0, box_rows = 0;
  int32_t tap_rows = 0, tap_shift = 0;  // of the tile, and from one to the next of the box's rows
  bool has_one_column = false;          // of taps
};

struct Arguments : PixelPatches {
  static constexpr bool kOutputRows = false;  // whether grad_output has its rows innermost

  // A tile is ((row of taps, taps), channels, output channels), the last varying fastest.
  FastDiv tiles_of_k, tiles_of_c, tiles_of_s;
  int32_t tiles;
  // Tiles begin at each of so many neighbouring taps, or rows, and then as many further.
  FastDiv kinds_s, kinds_r;
  int32_t tile_c, tile_s, tile_r;
  ColumnAxes axes;

  // A cluster has cluster_tiles neighbouring tiles, of other output channels, whose blocks share
  // the input's boxes, for each of cluster_splits parts of the pixels, whose blocks add their sums.
  // The patches are split into cluster_splits * outer_splits even parts, of which the first ones
  // may have one patch more; the sums of the outer
  // splits, where there are several, go to `partial` as [split][tile][quad][math thread] of four,
  // and to bias_partial as [split][k].
  int32_t cluster_tiles, cluster_splits, outer_splits;
  FastDiv tile_clusters, tiles_of_cluster;  // clusters of an outer split; cluster_tiles
  int32_t split_patches, longer_splits;     // patches of a split; splits that have one more

  int32_t stages, k_steps;
  int32_t grad_output_bytes;         // of one box
  int32_t input_bytes, input_boxes;  // of one box, and how many
  int32_t copied_bytes;              // of a stage, less what aligns its boxes
  int32_t group_bytes;               // from eight pixels of the input to the next
  // Of a patch or, where grad_output has its rows innermost, of each of its rows.
  GroupCounts groups;
  int32_t zero_bytes;  // of zeros behind the ring, which stand for a group of the input

  RowEndPlaces row_ends;

  void* grad_filter;
  int64_t filter_k, filter_r, filter_s;  // strides; channels are neighbours
  void* grad_bias;                       // null: not wanted
  bool multiplies_for_bias;              // with ones, instead of adding
  float* partial;
  float* bias_partial;

  template <class FilterElement>
  HALOCONV_HOST_DEVICE int64_t filter_offset(const FilterElement& of) const {
    return of.k * filter_k + of.r * filter_r + of.s * filter_s + of.c;
  }
  HALOCONV_HOST_DEVICE int32_t cluster_blocks() const { return cluster_tiles * cluster_splits; }
  HALOCONV_HOST_DEVICE int32_t splits() const { return cluster_splits * outer_splits; }
  HALOCONV_HOST_DEVICE int32_t first_patch(int32_t split) const {
    return split * split_patches + (split < longer_splits ? split : longer_splits);
  }
  HALOCONV_HOST_DEVICE PatchExtent extent_of(const PatchPlace& patch) const {
    const bool ends_row = patch.strip == strips.divisor - 1;
    const bool is_last = images_innermost ? ends_row : patch.band == bands.divisor - 1;
    return {is_last ? groups.last : groups.whole, 1, ends_row};
  }
};

// Where grad_output has its rows innermost.
struct RowsArguments : Arguments {
  static constexpr bool kOutputRows = true;

  int32_t row_bytes;  // from a row of the input's box to the next
  int64_t output_k;   // from an output channel of grad_output to the next

  HALOCONV_HOST_DEVICE PatchExtent extent_of(const PatchPlace& patch) const {
    const int32_t left = p - patch.band * rows;
    const bool ends_row = patch.strip == strips.divisor - 1;
    return {ends_row ? groups.last : groups.whole, left < rows ? left : rows, ends_row};
  }
};

}  // namespace haloconv::sm90::channels_last_wgrad
