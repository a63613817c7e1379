// The numbers that the kernels of a weight gradient are given, their index arithmetic, and the
// vocabulary in which all its files count.
//
//   grad_filter[k, c, r, s] = sum over n, p, q of grad_output[n, k, p, q] * input[n, c, y, x]
//     where y = p * stride_h - pad_top + r * dilation_h
//           x = q * stride_w - pad_left + s * dilation_w
//
// is a matrix product: its rows are output channels k, its columns are (r, s, c), and it sums over
// pixels (n, p, q). Its numberings nest, each in a header of its own:
//
//   columns.h         filter (r, s, c)     -> column tile > matrix instruction > column
//   strips.h          pixels (n, p, q)     -> split > flight > walk > strip > segment > pixel
//   line_ring.h       input pixels         -> ring > window > line > plane > cell
//   partial_layout.h  sums                 -> partial > fragment > 8 columns > thread > 4 values
//
// stage_layout.h says how a strip's pixels of grad_output lie in shared memory, shifted_segments.h
// how segments begin where more pixels are copied at once than rows begin with.
#pragma once

#include <cstdint>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/wgrad/plan.h"
#include "conv2d/geometry/fast_div.h"

namespace haloconv::wgrad {

inline constexpr int kMathGroups = 2;     // warpgroups that compute
inline constexpr int kLoadThreads = 128;  // of each of two warpgroups that bring strips
inline constexpr int kLoadWarps = kLoadThreads / 32;
inline constexpr int kThreads = kMathGroups * 128 + 2 * kLoadThreads;
inline constexpr int kRowsOfGroup = 64;  // output channels of a warpgroup
inline constexpr int kMinStages = 2;
inline constexpr int kMaxStages = 8;
inline constexpr int kMathWarps = kMathGroups * 4;
inline constexpr int kBundleBytes = 24;  // of the window loader's tables
inline constexpr int kSegmentBytes = 24;
inline constexpr int kBoxSegments = 4;  // of a strip in boxes, which float32 alone has
inline constexpr int kShiftBytes = kMaxStages * kBoxSegments * 4;
inline constexpr int kBarrierBytes = 3 * kMaxStages * 8;
inline constexpr int32_t kMaxSegments = 0x7fff0000;  // numbers run a little past the last
inline constexpr int32_t kNoWalk = INT32_MAX, kNoStep = INT32_MAX;
// A warp loads, in a batch, a bundle of channels times so many columns of a window: each lane
// kBatchSteps columns of one channel. Where these are neighbours and loaded at once, a bundle has
// eight channels: the eight lanes of a quarter warp then store to different banks. Else
// neighbouring lanes load neighbouring columns; of four channels, so that they read pieces of 32
// bytes.
inline constexpr int kBatchSteps = 4;
inline constexpr int kFewestLaneChannels = 4;
HALOCONV_HOST_DEVICE constexpr int lane_channels(int input_vector) {
  return input_vector == kBatchSteps ? 8 : kFewestLaneChannels;
}
HALOCONV_HOST_DEVICE constexpr int lane_columns(int input_vector) {
  return 32 / lane_channels(input_vector);
}
HALOCONV_HOST_DEVICE constexpr int batch_columns(int input_vector) {
  return kBatchSteps * lane_columns(input_vector);
}
// The tensor core's accumulators truncate: sums move to the workspace every so many pixels of a
// warpgroup. Moved every 32K they err by 1e-5, never moved by 3e-4, as much as the operands'
// rounding.
inline constexpr int kRoundPixels = 16384;
// Precise plans move them to registers all the time; sums in memory make their chains shorter.
inline constexpr int kPreciseRoundPixels = 2048;

// Whether a warpgroup has so few sums that copies are what bounds its kernel, and what keeps them
// quick has the registers.
constexpr bool has_few_sums(int instructions, int width) { return instructions * width / 2 <= 72; }

// Segments of a strip: values in a cell.
constexpr int segments_of(int64_t element_bytes) { return static_cast<int>(16 / element_bytes); }

// What a block computes.
struct Block {
  int32_t group, split, row_tile, column_tile;
  int32_t first_group;      // of mma_channels input channels
  int32_t first_run, runs;  // of taps
  int32_t first_row, rows;  // of the filter, which those runs touch
};

// Where a segment begins.
struct Segment {
  int32_t image, row, column;  // n, p, q
  bool exists;
};

// Where a strip's window is in the ring of lines.
struct Window {
  int32_t step;  // of the walk
  int32_t cell;  // the first
};

// The columns of one matrix instruction of a block.
struct MmaColumns {
  int32_t run, group;  // group: of input channels
  bool idle;
};

// Where a result belongs; `exists`: it may be padding.
struct FilterElement {
  int32_t k, c, r, s;  // k: of all groups
  bool exists;
};

struct Arguments {
  const void* grad_output;  // (n, groups * rows, p, q), pixels of a row contiguous
  const void* input;        // (n, groups * channels, h, w), likewise
  float* partial;           // (partial, group, row group, column tile, MMA, 8 columns, thread, 4)
  float* bias_partial;      // (partial, group, row group, 64), or null
  int64_t output_n, output_k, input_n, input_c;  // elements from one to the next
  int32_t output_p, input_h;

  int32_t images, p, q, h, w;
  int32_t groups, rows, channels;  // output and input channels of a group
  int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int32_t taps_h, taps_w;

  // Taps class + i * class_step of a filter row are a class: i shifts cells by i * shift_step. A
  // run is mma_taps of them. Runs are numbered (filter row, class, run of the class).
  int32_t instructions, width, mma_taps, mma_channels;  // instructions: of a warpgroup
  int32_t classes, class_step, shift_step, runs_of_class;
  int32_t runs, tile_runs, tile_groups;
  int32_t run_tiles, channel_tiles;  // a column tile is a tile of runs and one of channels
  int32_t row_tiles;                 // blocks along the rows of a group
  Share share;

  // A row has whole segments and, unless short_pixels is 0, a short one. Walks of whole segments
  // are numbered (image, walk of its rows, segment of a row), from 0 on; those of short ones
  // likewise, from first_short_walk on. Steps of a walk are row_step rows apart, so that there are
  // row_step walks, or a multiple of that, to all rows.
  int32_t segment, whole_segments, short_pixels;
  int32_t row_step, walk_rows, walks_of_rows;
  int32_t whole_walks, short_walks, first_short_walk;
  int32_t short_pixels_of[kMathGroups];  // of the short segment, those of each warpgroup
  // A flight is as many neighbouring walks as a strip has segments. A split has split_flights of
  // them, each `splits` after the one before; with one, a split's strips follow each other,
  // whatever flights they are of.
  int32_t strips, splits, split_strips, split_flights;
  int32_t round_strips;   // a power of two
  int32_t partials;       // partial sums of one result
  int32_t output_vector;  // neighbouring pixels of grad_output copied at once: 1, 2, 4 or 8
  int32_t input_vector;   // of the input loaded at once: 1 or 4
  // Of whole segments, which may be copied by more pixels at once: shifted_segments.h. From a step
  // to the next they shift by row_shift columns, in all by most_shift at most. Of a line of short
  // ones the first left_part columns are those at the row's beginning.
  int32_t whole_vector, row_shift, most_shift, left_part;
  int32_t plane_vector, plane_shift;  // whole_vector and row_shift where a plan can have them

  // Columns that a window begins before its first pixel's, where it may start at a multiple of 4.
  int32_t left_columns;
  // In cells (16 bytes): a plane is the part of a line of a channel group and class, (m, channel).
  // A row of pixels of grad_output has its segments apart, against bank conflicts.
  int32_t plane_columns, plane_cells, line_cells;
  int32_t line_step;                              // lines from a walk's window to its next
  int32_t window_lines, ring_lines;               // of the block that has most
  int32_t fresh_cells, window_cells, ring_cells;  // of line_step lines, window_lines, ring_lines
  // Steps of a walk, beside its first one, whose window is loaded anew; kNoStep for none.
  int32_t restart_steps[2];
  int32_t most_behind;  // strips of a walk that are read while the next one is written
  int32_t segment_cells;
  int32_t tile_rows;  // of grad_output in a stage
  // Where the copy engine brings grad_output: a segment is boxes of tile_rows x box_columns, each
  // row with its 16-byte units swizzled against bank conflicts. The engine reads from whole 16
  // bytes on: row p is one of tensor map p % row_maps, which begins column_shift columns before it.
  bool boxes;
  int32_t segment_boxes, segment_bytes;
  int32_t box_columns, box_row_bits, box_bytes;  // a row of a box has 1 << box_row_bits bytes
  int32_t row_maps;                              // 1 or 2
  int32_t column_shift[2];                       // 0 or 2, by the address
  int32_t stages, stage_bytes;                   // of grad_output
  int32_t zero_cells;                            // that short strips read
  int32_t zeros_at, grad_at;                     // bytes from the start of shared memory
  int32_t bundles_at, segments_at, shifts_at, barriers_at;  // likewise
  FastDiv whole_segments_div, walk_rows_div, walks_of_rows_div, row_step_div, split_flights_div;
  int32_t segments;  // of a strip: what the kernels know by their type
  int32_t terms;     // likewise: each has a ring of lines, one after the other

  // columns.h
  HALOCONV_HOST_DEVICE int32_t block_instructions() const;
  HALOCONV_HOST_DEVICE int32_t first_instruction_of(int32_t math_group) const;
  HALOCONV_HOST_DEVICE bool sums_rows(const Block& b, int32_t math_group) const;
  HALOCONV_HOST_DEVICE int32_t column_tiles() const;
  HALOCONV_HOST_DEVICE int32_t runs_of_row() const;
  HALOCONV_HOST_DEVICE void set_columns(Block& b, int32_t column_tile) const;
  HALOCONV_HOST_DEVICE MmaColumns mma_columns(const Block& b, int32_t index) const;
  HALOCONV_HOST_DEVICE int32_t column_stride() const;
  HALOCONV_HOST_DEVICE int32_t mma_cells() const;
  HALOCONV_HOST_DEVICE int32_t filter_column(int32_t run, int32_t tap_of_run) const;
  HALOCONV_HOST_DEVICE int32_t row_groups() const;
  HALOCONV_HOST_DEVICE int64_t blocks() const;
  HALOCONV_HOST_DEVICE Block block(uint32_t index) const;
  HALOCONV_HOST_DEVICE int32_t planes() const;
  HALOCONV_HOST_DEVICE int32_t bundles() const;

  // strips.h
  HALOCONV_HOST_DEVICE int32_t first_strip(int32_t split) const;
  HALOCONV_HOST_DEVICE int32_t strips_of(int32_t split) const;
  HALOCONV_HOST_DEVICE int32_t step_of(int32_t strip) const;
  HALOCONV_HOST_DEVICE Segment segment_at(int32_t strip, int32_t index, int32_t in_strip) const;
  HALOCONV_HOST_DEVICE int32_t short_strips_of(int32_t split) const;
  HALOCONV_HOST_DEVICE int32_t input_column(const Segment& at, int32_t tap_class) const;
  HALOCONV_HOST_DEVICE int32_t input_end(const Segment& at) const;
  HALOCONV_HOST_DEVICE int32_t input_row(const Segment& at, int32_t filter_row) const;
  HALOCONV_HOST_DEVICE int32_t first_row_of(int32_t math_group) const;
  HALOCONV_HOST_DEVICE int32_t group_pixels() const;
  HALOCONV_HOST_DEVICE int32_t first_pixel_of(int32_t math_group) const;

  // shifted_segments.h
  HALOCONV_HOST_DEVICE int32_t shift_of(int32_t step) const;
  HALOCONV_HOST_DEVICE int32_t pixel_column(const Segment& at, int32_t pixel, int32_t shift) const;
  HALOCONV_HOST_DEVICE int32_t left_part_step() const;

  // line_ring.h
  HALOCONV_HOST_DEVICE int32_t first_cell(const Block& b, int32_t index) const;
  HALOCONV_HOST_DEVICE int32_t in_ring(int32_t cell) const;
  HALOCONV_HOST_DEVICE Window first_window(int32_t split) const;
  HALOCONV_HOST_DEVICE void advance(Window& window) const;
  HALOCONV_HOST_DEVICE bool is_start(int32_t step) const;
  HALOCONV_HOST_DEVICE int32_t steps_since_start(int32_t step) const;
  HALOCONV_HOST_DEVICE int32_t cells_to(const Window& window) const;
  HALOCONV_HOST_DEVICE int32_t first_fresh(const Block& b, const Window& window) const;
  HALOCONV_HOST_DEVICE bool holds_two_windows() const;
  HALOCONV_HOST_DEVICE int32_t strips_behind(int32_t step) const;

  // stage_layout.h
  HALOCONV_HOST_DEVICE int32_t row_cells(int32_t in_strip) const;
  HALOCONV_HOST_DEVICE uint32_t row_in_boxes(int32_t row, int32_t segment_index) const;
  HALOCONV_HOST_DEVICE uint32_t swizzle_at(uint32_t address) const;
  HALOCONV_HOST_DEVICE uint32_t in_boxes(uint32_t bytes, uint32_t swizzle) const;

  // partial_layout.h
  HALOCONV_HOST_DEVICE int32_t fragment_floats() const;
  HALOCONV_HOST_DEVICE int64_t partial_floats() const;
  HALOCONV_HOST_DEVICE int64_t bias_floats() const;
  HALOCONV_HOST_DEVICE int32_t partial_index(const Block& b, int32_t math_group) const;
  HALOCONV_HOST_DEVICE int32_t row_group_of(const Block& b, int32_t math_group) const;
  HALOCONV_HOST_DEVICE FilterElement element(int64_t index) const;
};

}  // namespace haloconv::wgrad
