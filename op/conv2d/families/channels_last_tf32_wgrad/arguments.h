// What the kernels are given, and where operands and sums lie; host and device use the same
// functions.
//
//   grad_filter[(channel, tap), k] = sum over pixels of input[pixel at tap, channel] *
//                                    grad_output[pixel, k]
//
// In TF32 the matrix instruction takes its second operand with the depth innermost alone, and the
// depth is pixels, which are not innermost. So grad_output, which all taps share, is transposed in
// shared memory once, and the input is the first operand, from registers: a tap is an address.
//
// The sum runs over patches of groups of eight pixels: side by side in a row, or at the same place
// of eight images, where pixels lie as [row][column][image]. Images are often whole eights where
// rows are none. Zeros stand for pixels that grad_output has not. Beyond the last image the input
// has none either; what else it has there would make NaN of an infinity. So groups beyond the last
// row, or of images beyond the last column, are left out, and of a group that a row ends in, zeros
// stand for the input's pixels too.
//
// A stage of the ring holds a patch as the copy engine brings it, in boxes of 32 channels, 128
// bytes a pixel, swizzled: the tile's `columns` of grad_output, then 64 channels of the input for
// each of the tile's chunks, with the halo of its taps, which the copy engine rounds to TF32.
// Transposed, grad_output lies as [four groups][k] of 128 bytes, swizzled: of a group the even
// pixels, then the odd ones, so that a quad's threads read pixels of the input in different banks.
#pragma once

#include <cstdint>

#include "conv2d/device/pixel_patches.h"
#include "conv2d/geometry/fast_div.h"

namespace haloconv::sm90::channels_last_tf32_wgrad {

inline constexpr int32_t kPixelBytes = 128;    // of 32 channels
inline constexpr int32_t kChunkChannels = 64;  // rows of a matrix instruction
inline constexpr int32_t kInstructionColumns = 64;
inline constexpr int32_t kTransposed = 2;   // buffers
inline constexpr int32_t kBlockGroups = 4;  // of pixels in a row of 128 bytes, transposed
inline constexpr int32_t kMaxStages = 8;
inline constexpr int64_t kMostSharedBytes = 226 * 1024;  // beside the kernel's barriers

// A block's tile: math warpgroups, blocks of 64 rows (a chunk at a tap) that each has, and
// instructions of 64 output channels for each block.
struct Tile {
  int32_t warpgroups, blocks, instructions;

  HALOCONV_HOST_DEVICE constexpr int32_t row_blocks() const { return warpgroups * blocks; }
  HALOCONV_HOST_DEVICE constexpr int32_t columns() const {
    return instructions * kInstructionColumns;
  }
  HALOCONV_HOST_DEVICE constexpr int32_t math_threads() const { return warpgroups * 128; }
  // With two math warpgroups one cannot keep up with them.
  HALOCONV_HOST_DEVICE constexpr int32_t transposing_threads() const {
    return warpgroups == 2 ? 256 : 128;
  }
  HALOCONV_HOST_DEVICE constexpr int32_t threads() const {
    return math_threads() + transposing_threads();
  }
  // Fours of sums that a math thread holds.
  HALOCONV_HOST_DEVICE constexpr int32_t quads() const { return blocks * instructions * 8; }
  HALOCONV_HOST_DEVICE constexpr int64_t values() const {
    return int64_t{4} * quads() * math_threads();
  }
  constexpr bool operator==(const Tile&) const = default;
};

// How a math warpgroup goes over a patch. By groups, each block of rows reads the pixels that a
// group of its own tap meets. Where the blocks of a warpgroup are three taps of a 3x3 filter that
// lie one group of pixels apart, what is read for one serves all: the taps of a column, if groups
// are eight rows of pixels, or those of a row, if they are images side by side, of two rows and two
// columns.
enum class Walk : int32_t { kGroups, kRows, kSquares };

inline constexpr Tile kTiles[] = {{3, 3, 1}, {2, 2, 2}, {2, 1, 2}, {2, 1, 1}};

// Where images are innermost a patch has one row, or two if it is walked by squares.
struct Arguments : PixelPatches {
  int32_t splits;  // which share the patches out evenly

  // A tile is (taps, chunks, output channels), the last varying fastest. Its taps share a box, so
  // that they are of one kind (tap_steps.h): of a grid of `kind_taps`, row by row.
  FastDiv tiles_of_k, tiles_of_c, tiles_of_kind;
  int32_t tiles;
  int32_t tile_chunks, tile_taps;
  FastDiv kinds_s;  // along a row of the filter
  FastDiv kind_columns;
  int32_t kind_taps;
  int32_t step_r, step_s, shift_h, shift_w;

  Walk walk;
  int32_t groups;         // of eight pixels in a patch
  int32_t last_groups;    // in the last row's patches or, of images, in a row's last
  int32_t last_columns;   // that a row's last group has, if not all eight; else 0
  int32_t group_pixels;   // of the input's box, from a group to the next
  int32_t column_pixels;  // and from a column to the next
  int32_t box_w;          // of the input
  int32_t grad_output_bytes, input_bytes;  // of a box of 32 channels
  int32_t copied_bytes;                    // of a stage
  int32_t stages;
  bool with_bias;

  void* grad_filter;
  int64_t filter_k, filter_r, filter_s;  // strides; channels are neighbours
  void* grad_bias;
  float* partial;       // [split][tile][quad][math thread] of four
  float* bias_partial;  // [split][k]

  template <class Place>
  HALOCONV_HOST_DEVICE int64_t filter_offset(const Place& of) const {
    return of.k * filter_k + of.r * filter_r + of.s * filter_s + of.c;
  }
  HALOCONV_HOST_DEVICE int32_t first_patch(int32_t split) const {
    return static_cast<int32_t>(int64_t{patches} * split / splits);
  }
  // Of a patch, the groups that are multiplied.
  HALOCONV_HOST_DEVICE int32_t groups_of(const PatchPlace& patch) const {
    const bool is_last =
        images_innermost ? patch.strip == strips.divisor - 1 : patch.band == bands.divisor - 1;
    return is_last ? last_groups : groups;
  }
  // And how many of a group's pixels, from the first on.
  HALOCONV_HOST_DEVICE int32_t pixels_of(const PatchPlace& patch) const {
    return last_columns != 0 && patch.strip == strips.divisor - 1 ? last_columns : 8;
  }
  HALOCONV_HOST_DEVICE int32_t stage_bytes(const Tile& tile) const {
    return tile.columns() / 32 * grad_output_bytes + tile_chunks * 2 * input_bytes;
  }
  HALOCONV_HOST_DEVICE int32_t transposed_bytes(const Tile& tile) const {
    return (groups + kBlockGroups - 1) / kBlockGroups * tile.columns() * kPixelBytes;
  }
};

// Pixels of the input's box from those that the first group meets to those of `group`.
HALOCONV_HOST_DEVICE inline int32_t first_pixel_of(const Arguments& args, int32_t group) {
  return args.walk == Walk::kSquares ? (group / 2 * args.box_w + group % 2) * args.column_pixels
                                     : group * args.group_pixels;
}

// A tile's first element.
struct TilePosition {
  int32_t k, chunk, tap;   // the tap by its number among those of its kind
  int32_t kind_r, kind_s;  // the first tap of the filter that is of this kind

  HALOCONV_HOST_DEVICE TilePosition(const Arguments& args, const Tile& tile, int32_t index) {
    const int32_t above_k = args.tiles_of_k.quotient(index);
    const int32_t taps = args.tiles_of_c.quotient(above_k);
    const int32_t kind = args.tiles_of_kind.quotient(taps);
    k = (index - above_k * args.tiles_of_k.divisor) * tile.columns();
    chunk = (above_k - taps * args.tiles_of_c.divisor) * args.tile_chunks;
    tap = (taps - kind * args.tiles_of_kind.divisor) * args.tile_taps;
    kind_r = args.kinds_s.quotient(kind);
    kind_s = kind - kind_r * args.kinds_s.divisor;
  }

  HALOCONV_HOST_DEVICE bool is_first_of_rows() const {
    return chunk == 0 && tap == 0 && kind_r == 0 && kind_s == 0;
  }
  // Where its box begins among the taps of its kind. A tile of one tap begins at it, others at the
  // first one of a row.
  HALOCONV_HOST_DEVICE int32_t first_row(const Arguments& args) const {
    return args.kind_columns.quotient(tap);
  }
  HALOCONV_HOST_DEVICE int32_t first_column(const Arguments& args) const {
    return args.tile_taps == 1 ? tap - first_row(args) * args.kind_columns.divisor : 0;
  }
  // And which tap of the filter that is.
  HALOCONV_HOST_DEVICE int32_t first_r(const Arguments& args) const {
    return kind_r + first_row(args) * args.step_r;
  }
  HALOCONV_HOST_DEVICE int32_t first_s(const Arguments& args) const {
    return kind_s + first_column(args) * args.step_s;
  }
};

// One of a tile's blocks of rows: its chunk, from the tile's first, and its tap, by the place among
// those of its kind and in the filter.
struct RowBlock {
  int32_t chunk;
  int32_t row, column;
  int32_t r, s;
  bool exists;

  HALOCONV_HOST_DEVICE RowBlock(const Arguments& args, const TilePosition& tile, int32_t index)
      : chunk(index / args.tile_taps) {
    // Down the columns of a 3x3 filter, or along its rows.
    const int32_t of_tile =
        args.walk == Walk::kRows ? index % 3 * 3 + index / 3 : index % args.tile_taps;
    const int32_t tap = tile.tap + of_tile;
    row = args.kind_columns.quotient(tap);
    column = tap - row * args.kind_columns.divisor;
    r = tile.kind_r + row * args.step_r;
    s = tile.kind_s + column * args.step_s;
    exists = chunk < args.tile_chunks && (tile.chunk + chunk) * kChunkChannels < args.c &&
             tap < args.kind_taps && r < args.r && s < args.s;
  }

  // Pixels of the input's box from its first to the one that the patch's first meets.
  HALOCONV_HOST_DEVICE int32_t first_pixel(const Arguments& args, const TilePosition& tile) const {
    return ((row - tile.first_row(args)) * args.shift_h * args.box_w +
            (column - tile.first_column(args)) * args.shift_w) *
           args.column_pixels;
  }
};

// Where a math thread reads the two neighbouring channels of a pixel that it has of a block: bytes
// from the first of the block's two boxes. Its rows 16 * warp + lane / 4 and 8 more are the
// channels 16 * warp + 2 * (lane / 4) and the next.
HALOCONV_HOST_DEVICE inline int32_t input_bytes_at(const Arguments& args, int32_t warp,
                                                   int32_t lane, int32_t pixel) {
  const int32_t unit = warp % 2 * 4 + lane / 8;
  return warp / 2 * args.input_bytes + pixel * kPixelBytes + ((unit ^ (pixel & 7)) << 4) +
         lane / 4 % 2 * 8;
}

// What one of the transposing threads moves of a box of 32 channels and four groups: four of these
// channels, of the even or of the odd pixels of a group. Eight lanes have different banks both
// where they read and where they write. Pairs of warps have a box each; where there are more of
// them than boxes, they have every other four groups.
struct TransposePlace {
  int32_t box;         // its only one, of two or four
  int32_t block;       // the first of its fours of groups
  int32_t blocks;      // from there to its next
  int32_t group, odd;  // of the pixels
  int32_t unit;        // of 16 bytes in a pixel: the channels

  HALOCONV_HOST_DEVICE TransposePlace(const Tile& tile, int32_t thread)
      : box(thread / 64 % (tile.columns() / 32)),
        block(thread / 64 / (tile.columns() / 32)),
        blocks(tile.transposing_threads() / (tile.columns() * 2)),
        group(thread % 8 / 2),
        odd(thread % 2),
        unit((group + 4 * odd) ^ (thread / 8 % 8)) {}

  // Bytes of the pixel `i` of four, from the block's first in the box.
  HALOCONV_HOST_DEVICE int32_t from(int32_t i) const {
    const int32_t row = group * 8 + odd + 2 * i;
    return row * kPixelBytes + ((unit ^ (row & 7)) << 4);
  }
  // Bytes of the four pixels of its channel `i` of four, from the block's and the box's first.
  HALOCONV_HOST_DEVICE int32_t to(int32_t i) const {
    const int32_t channel = unit * 4 + i;
    return channel * kPixelBytes + (((group * 2 + odd) ^ (channel & 7)) << 4);
  }
};

// Where a group begins as the matrix instruction's second operand, in 16 bytes.
HALOCONV_HOST_DEVICE constexpr int32_t transposed_units(int32_t columns, int32_t group) {
  return group / kBlockGroups * columns * (kPixelBytes / 16) + group % kBlockGroups * 2;
}

// The filter's element that is the first of a quad: with the next k, and then both of the next c.
struct QuadPlace {
  int32_t k, c, r, s;
  bool exists;

  HALOCONV_HOST_DEVICE QuadPlace(const Arguments& args, const Tile& tile,
                                 const TilePosition& position, int32_t thread, int32_t quad) {
    const int32_t in_block = quad % (tile.instructions * 8), lane = thread % 32;
    const RowBlock block(args, position,
                         thread / 128 * tile.blocks + quad / (tile.instructions * 8));
    r = block.r;
    s = block.s;
    c = (position.chunk + block.chunk) * kChunkChannels + thread % 128 / 32 * 16 + lane / 4 * 2;
    k = position.k + in_block / 8 * kInstructionColumns + in_block % 8 * 8 + lane % 4 * 2;
    exists = block.exists;
  }
};

}  // namespace haloconv::sm90::channels_last_tf32_wgrad
