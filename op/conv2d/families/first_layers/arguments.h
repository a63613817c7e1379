// The kernels' arguments, and how tiles are numbered; host and device walk them by the same
// functions.
//
// Output pixels are cut into tiles of tile_rows x columns pixels. Tiles one below the other, a
// segment, need input rows that follow each other. A block takes a run of tiles. Its ring in shared
// memory gets the rows of units (units.h) of the run's segments one after the other, each row once
// for all tiles and taps that read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv2d/device/channel_results.h"
#include "conv2d/families/first_layers/pixel_box.h"
#include "conv2d/families/first_layers/units.h"

namespace haloconv::sm90::first_layers {

inline constexpr int kMathGroups = 2;  // warpgroups that multiply
inline constexpr int kOtherWarps = 4;  // which bring the operands
inline constexpr int kMaxRing = 32;    // rows
inline constexpr int kMaxStages = 6;   // of grad_output

// Rows of the input whose elements are contiguous, in lines of all channels or of one each. They
// are read by 16 bytes, and units are put together in shared memory. Other rows are read element by
// element.
struct Lines {
  int32_t count = 0;  // lines of a row; 0 if elements are not contiguous
  int32_t elements;   // of a line
  int32_t step;       // from one column to the next
  int32_t pitch;      // in shared memory, from one line to the next
  FastDiv vectors;    // of 16 bytes of a line there

  // The shared memory of a warp that brings rows.
  HALOCONV_HOST_DEVICE int32_t bytes(int32_t element_bytes) const {
    return count * pitch * element_bytes;
  }
  // The first element of a line that is brought for units from a column on; 16 bytes begin there.
  HALOCONV_HOST_DEVICE int32_t first(const UnitRow& units, int32_t column) const {
    return column * step & -units.elements;
  }
};

// Where rows of units come from, and the tiles that read them.
struct Sweep {
  UnitRow units;
  Lines lines;
  const void* input;
  int64_t input_n, input_h;  // elements between images and rows
  int32_t input_w, input_c;  // and between columns and channels
  int32_t h, w;              // of the input
  int32_t pad_top, pad_left;
  int32_t r, stride_h, dilation_h;
  int32_t p, q;                // of the output
  int32_t tile_rows, columns;  // of a tile
  FastDiv strips, bands;       // tiles side by side, and one below the other
  int32_t tiles, runs;         // of all images; the runs share the tiles
  int32_t ring, row_bytes;

  HALOCONV_HOST_DEVICE int32_t first_tile(int32_t run) const {
    return static_cast<int32_t>(int64_t{tiles} * run / runs);
  }
  // Input rows that a tile reads, and those that the next tile no longer reads.
  HALOCONV_HOST_DEVICE int32_t rows_of_tile() const {
    return (tile_rows - 1) * stride_h + (r - 1) * dilation_h + 1;
  }
  HALOCONV_HOST_DEVICE int32_t rows_to_next() const { return tile_rows * stride_h; }
  // Input rows of a segment of so many tiles.
  HALOCONV_HOST_DEVICE int32_t rows_of_segment(int32_t of_tiles) const {
    return (of_tiles - 1) * rows_to_next() + rows_of_tile();
  }
};

struct TilePlace {
  int32_t image, strip, band;

  HALOCONV_HOST_DEVICE TilePlace(const Sweep& sweep, int32_t tile) {
    const int32_t above = sweep.bands.quotient(tile);
    band = tile - above * sweep.bands.divisor;
    image = sweep.strips.quotient(above);
    strip = above - image * sweep.strips.divisor;
  }
  HALOCONV_HOST_DEVICE int32_t tiles_below(const Sweep& sweep) const {
    return sweep.bands.divisor - band;
  }
};

// For all warps that write fprop's results with rows innermost: 16 channels of 64 pixels each, and
// room between channels against bank conflicts. Fused results are float32 until they are written.
HALOCONV_HOST_DEVICE constexpr int32_t staging_bytes_of_warp(int32_t element_bytes, bool fused) {
  return 16 * (fused || element_bytes == 4 ? 64 * 4 + 32 : 64 * 2 + 16);
}
HALOCONV_HOST_DEVICE constexpr int32_t staging_bytes(int32_t element_bytes, bool fused) {
  return kMathGroups * 4 * staging_bytes_of_warp(element_bytes, fused);
}

// The place of one of a unit's elements: how far it is from the unit's first element, in memory or
// among the lines in shared memory, and where it is.
struct UnitElement {
  int32_t offset, in_lines, column;
  bool exists, is_one;

  HALOCONV_HOST_DEVICE UnitElement(const Sweep& sweep, int32_t element) {
    const UnitRow& row = sweep.units;
    const int32_t pixel = row.pixel_of(element), channel = row.channel_of(element);
    column = pixel * row.dilation;
    offset = column * sweep.input_w + channel * sweep.input_c;
    in_lines =
        column * sweep.lines.step + channel * (sweep.lines.count > 1 ? sweep.lines.pitch : 1);
    exists = channel < row.channels;
    is_one = pixel == 0 && channel == row.ones;
  }
};

// fprop: each math warpgroup has 64 columns, of the same row or of the next.
struct FpropArguments {
  Sweep sweep;
  const void* filter;
  int64_t filter_k, filter_c, filter_r, filter_s;  // strides
  FastDiv channel_tiles;
  int64_t destination_n, destination_c, destination_h, destination_w;
  int32_t pixel_unit;  // with rows innermost, pixels that are written at once
  Results results;
};

// wgrad: a product whose depth is pixels. A math warpgroup has 64 output channels, or all of them
// and every other filter row.
struct WgradArguments {
  Sweep sweep;
  int32_t k, c, s;
  bool splits_rows;            // the two warpgroups share filter rows, not output channels
  int32_t channel_tiles;       // of 64 or 128 output channels
  int32_t group_bytes;         // from one group of taps to the next
  int32_t grad_output_stages;  // each of a tile's pixels
  int32_t rows_bytes;          // of the ring, and what is read beyond it
  bool with_bias;
  // What wgrad_nonfinite.cuh reads if steps of 16 columns reach beyond grad_output.
  bool reaches_beyond;
  int32_t r, n, h, w, p, q;
  int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  const void *grad_output, *input;
  int64_t output_n, output_k, output_p, output_q, input_n, input_h, input_w, input_c;
  void* grad_filter;
  int64_t filter_k, filter_c, filter_r, filter_s;  // strides
  void* grad_bias;
  float* partial;  // [run][channel tile][sum][math thread]

  template <class FilterElement>
  HALOCONV_HOST_DEVICE int64_t filter_offset(const FilterElement& of) const {
    return of.k * filter_k + of.c * filter_c + of.r * filter_r + of.s * filter_s;
  }
  HALOCONV_HOST_DEVICE int64_t input_offset(int64_t at_n, int64_t at_h, int64_t at_w,
                                            int64_t at_c) const {
    return at_n * input_n + at_h * input_h + at_w * input_w + at_c * input_c;
  }
  // What wgrad_nonfinite.cuh calls.
  HALOCONV_HOST_DEVICE int32_t parts() const { return sweep.runs; }
  HALOCONV_HOST_DEVICE int32_t first_box(int32_t run) const { return sweep.first_tile(run); }
  HALOCONV_HOST_DEVICE PixelBox box_of(int32_t tile) const {
    const TilePlace place(sweep, tile);
    const int32_t first = place.strip * sweep.columns;
    const int32_t left = (q - first + 15) / 16 * 16;  // whole steps
    return {place.image,     place.band * sweep.tile_rows,
            first,           1,
            sweep.tile_rows, left < sweep.columns ? left : sweep.columns};
  }
};

}  // namespace haloconv::sm90::first_layers
