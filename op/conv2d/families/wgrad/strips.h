// How pixels (n, p, q) are shared out between blocks, and in which order a block sums them.
//
// Rows of pixels are cut into segments. A walk goes down an image's rows at one segment's columns.
// Neighbouring walks, as many as a cell has values (four of float32, eight of 16 bits), go side by
// side: their segments of one step are a strip, which is what a stage of shared memory holds.
//
//              columns q ->
//               walk 0     walk 1     walk 2     walk 3
//     step 0  | segment  | segment  | segment  | segment  |   <- strip 0
//     step 1  | segment  | segment  | segment  | segment  |   <- strip 1
//     ...                                                        walk_rows strips: a flight
//
// Steps are row_step rows apart, so an image's rows take row_step walks, or a multiple of that.
// Walks are numbered (image, walk of its rows, segment of a row). A matrix instruction takes two
// neighbouring pixels of each segment of a strip.
//
// Where rows are no whole segments, each ends with a short one. A pixel that the output has not
// must not be multiplied: its zero would make NaN of an infinity. So all segments of a strip are
// whole or all are short, and of a short one no pixels are multiplied but its own (step_cells.h).
// Walks of short segments have numbers of their own, which follow all others.
//
// Splits are blocks that share a tile's pixels. With one flight each (split_flights = 1) a split's
// strips follow each other, whatever flights they are of. With more, splits interleave: split i has
// the flights i, i + splits, i + 2 * splits, ..., so that splits that run at one time read
// neighbours.
#pragma once

#include "conv2d/families/wgrad/argument_fields.h"

namespace haloconv::wgrad {

// The first strip of a split, and how many it has.
HALOCONV_HOST_DEVICE inline int32_t Arguments::first_strip(int32_t split) const {
  return split * split_strips;
}
HALOCONV_HOST_DEVICE inline int32_t Arguments::strips_of(int32_t split) const {
  const int32_t rest = strips - split * split_strips;
  return rest < split_strips ? rest : split_strips;
}

// Strips of short segments among these: they are the split's last ones.
HALOCONV_HOST_DEVICE inline int32_t Arguments::short_strips_of(int32_t split) const {
  if (short_pixels == 0) return 0;
  const int32_t flights = first_short_walk / segments;  // of whole segments
  // Of one flight each, a split's strips are numbered as the problem's are. With more, the split
  // has every splits'th flight.
  const int32_t first = split_flights == 1 ? 0 : split * split_flights;  // as splits count them
  const int32_t whole = split_flights == 1 ? flights : (flights - split + splits - 1) / splits;
  const int32_t strips_before = (first + whole) * walk_rows - first_strip(split);
  const int32_t own = strips_of(split);
  return strips_before <= 0 ? own : strips_before < own ? own - strips_before : 0;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::step_of(int32_t strip) const {
  return strip - walk_rows_div.quotient(strip) * walk_rows;
}

HALOCONV_HOST_DEVICE inline Segment Arguments::segment_at(int32_t strip, int32_t index,
                                                          int32_t in_strip) const {
  const int32_t flight = walk_rows_div.quotient(strip);  // as splits count them
  const int32_t split = split_flights_div.quotient(flight);
  const int32_t walk = ((flight - split * split_flights) * splits + split) * in_strip + index;
  const bool is_short = walk >= first_short_walk;
  const int32_t of_kind = is_short ? walk - first_short_walk : walk;
  // (image, walk of its rows)
  const int32_t above = is_short ? of_kind : whole_segments_div.quotient(of_kind);
  const int32_t image = walks_of_rows_div.quotient(above);
  const int32_t of_rows = above - image * walks_of_rows;
  const int32_t division = row_step_div.quotient(of_rows);
  const int32_t row =
      (division * walk_rows + step_of(strip)) * row_step + of_rows - division * row_step;
  const int32_t in_row = is_short ? whole_segments : of_kind - above * whole_segments;
  return {image, row, in_row * segment,
          of_kind < (is_short ? short_walks : whole_walks) && row < p};
}

// The input column of a segment's cell 0.
HALOCONV_HOST_DEVICE inline int32_t Arguments::input_column(const Segment& at,
                                                            int32_t tap_class) const {
  return at.column * stride_w - pad_left - left_columns + tap_class * dilation_w;
}

// The input columns that the segment's pixels meet end here, those loaded with them aside. Cells
// from there on are zero: nothing reads them, so nothing needs to be loaded.
HALOCONV_HOST_DEVICE inline int32_t Arguments::input_end(const Segment& at) const {
  const int32_t segment_end = at.column + segment + most_shift;
  const int32_t pixels_end = segment_end < q ? segment_end : q;
  const int32_t end = (pixels_end - 1) * stride_w - pad_left + (taps_w - 1) * dilation_w + 1;
  const int32_t loaded = (end + input_vector - 1) & -input_vector;  // a power of two
  return loaded < w ? loaded : w;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::input_row(const Segment& at,
                                                         int32_t filter_row) const {
  return at.row * stride_h - pad_top + filter_row * dilation_h;
}

// A warpgroup's rows in a stage, its first pixel of a segment, and how many.
HALOCONV_HOST_DEVICE inline int32_t Arguments::first_row_of(int32_t math_group) const {
  return share == Share::kChannels ? math_group * kRowsOfGroup : 0;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::group_pixels() const {
  return share == Share::kPixels ? segment / kMathGroups : segment;
}

HALOCONV_HOST_DEVICE inline int32_t Arguments::first_pixel_of(int32_t math_group) const {
  return share == Share::kPixels ? math_group * group_pixels() : 0;
}

}  // namespace haloconv::wgrad
