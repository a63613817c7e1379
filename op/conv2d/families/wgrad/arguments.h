// What a plan of the weight gradient comes to for one problem: the arguments of its kernels, and
// all their index arithmetic. Plain numbers, tested without a GPU.
//
//   grad_filter[k, c, r, s] = sum over n, p, q of grad_output[n, k, p, q] *
//     input[n, c, p * stride_h - pad_top + r * dilation_h, q * stride_w - pad_left + s *
//     dilation_w]
//
// is a matrix product: rows k, columns (r, s, c), reduced over pixels (n, p, q). Rows of pixels are
// cut into segments. Four segments are a strip, of 16-bit types eight, at the same step of as many
// neighbouring walks, each of which goes down an image's rows. A matrix instruction takes two
// neighbouring pixels of each segment. In shared memory a cell of 16 bytes holds the same column of
// the input's window for the strip's segments, of float32 rounded to TF32:
//
//   cell m of a channel, filter row r and class of taps: input[n, c, y(p, r), x(q + m)] of each
//   segment's n, p and first q
//
// so step i reads cells m = 2i and 2i + 1, and a tap further along the row shifts m: no copy for a
// tap. With a column stride, taps of one class are those whose columns differ by whole strides.
//
// The cells of a filter row are a line; a window is a line for each filter row of the block. From a
// walk's step to its next, filter row r meets what row r + line_step met: lines lie in a ring, and
// only the window's last ones are loaded anew. With a dilation a walk's rows are as far apart as
// that takes.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/wgrad/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::sm90::wgrad {

inline constexpr int kMathGroups = 2;     // warpgroups that compute
inline constexpr int kLoadThreads = 128;  // of each of two warpgroups that bring strips
inline constexpr int kLoadWarps = kLoadThreads / 32;
inline constexpr int kThreads = kMathGroups * 128 + 2 * kLoadThreads;
inline constexpr int kRowsOfGroup = 64;  // output channels of a warpgroup
inline constexpr int kMinStages = 2;
inline constexpr int kMaxStages = 8;
inline constexpr int kMathWarps = kMathGroups * 4;
inline constexpr int kQuadBytes = 24;  // of the window loader's tables
inline constexpr int kSegmentBytes = 24;
inline constexpr int kBoxSegments = 4;  // of a strip in boxes, which float32 alone has
inline constexpr int kShiftBytes = kMaxStages * kBoxSegments * 4;
inline constexpr int kBarrierBytes = 3 * kMaxStages * 8;
inline constexpr int32_t kMaxSegments = 0x7fff0000;  // numbers run a little past the last
// A warp loads, in a batch, so many channels times so many columns of a window: each lane some
// columns of one channel, neighbours if they may be loaded at once, else kLaneColumns apart. Two
// lanes of a quarter warp then store to one bank, and lines are read in pieces of 32 bytes or more.
inline constexpr int kLaneChannels = 4;
inline constexpr int kLaneColumns = 32 / kLaneChannels;
inline constexpr int kBatchSteps = 4;
inline constexpr int kBatchColumns = kBatchSteps * kLaneColumns;
// The tensor core's accumulators truncate: sums move to the workspace every so many pixels of a
// warpgroup. Moved every 32K they err by 1e-5, never moved by 3e-4, as much as the operands'
// rounding.
inline constexpr int kRoundPixels = 16384;
// Precise plans move them to registers all the time; sums in memory make their chains shorter.
inline constexpr int kPreciseRoundPixels = 2048;

// Segments of a strip: values in a cell.
constexpr int segments_of(int64_t element_bytes) { return static_cast<int>(16 / element_bytes); }

// What a block computes.
struct Block {
  int32_t group, split, row_tile, column_tile;
  int32_t first_group;      // of slot_channels input channels
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

// Slot of a block.
struct Slot {
  int32_t run, group;  // group: of input channels
  bool idle;
};

// Where a result belongs; `exists`: it may be padding.
struct FilterElement {
  int32_t column;      // of the slot
  int32_t k, c, r, s;  // k: of all groups
  bool exists;
};

struct Arguments {
  const void* grad_output;  // (n, groups * rows, p, q), pixels of a row contiguous
  const void* input;        // (n, groups * channels, h, w), likewise
  float* partial;           // (part, group, row group, column tile, slot, 8 columns, thread, 4)
  float* bias_partial;      // (part, group, row group, 64), or null
  int64_t output_n, output_k, input_n, input_c;  // elements from one to the next
  int32_t output_p, input_h;

  int32_t images, p, q, h, w;
  int32_t groups, rows, channels;  // output and input channels of a group
  int32_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int32_t taps_h, taps_w;

  // Taps class + i * class_step of a filter row are a class: i shifts cells by i * shift_step. A
  // run is slot_taps of them. Runs are numbered (filter row, class, run of the class).
  int32_t slots, width, slot_taps, slot_channels;
  int32_t classes, class_step, shift_step, runs_of_class;
  int32_t runs, tile_runs, tile_groups;
  int32_t run_tiles, channel_tiles;  // a column tile is a tile of runs and one of channels
  int32_t row_tiles;                 // blocks along the rows of a group
  Share share;

  // Walks are numbered (image, walk of its rows, segment of a row). Steps of a walk are row_step
  // rows apart, so that there are row_step walks, or a multiple of that, to all rows.
  int32_t segment, segments_of_row, row_step, walk_rows, walks_of_rows, walks;
  // As many walks after each other as a strip has segments are a flight. A split has `turns`
  // flights, each `splits` after the one before; one turn: a split's strips follow each other,
  // whatever flights they are of.
  int32_t strips, splits, split_strips, turns;
  int32_t round_strips;   // a power of two
  int32_t parts;          // partial sums of one result
  int32_t output_vector;  // neighbouring pixels of grad_output copied at once: 1, 2, 4 or 8
  int32_t input_vector;   // of the input loaded at once: 1 or 4

  // Columns that a window begins before its first pixel's, where it may start at a multiple of 4.
  int32_t lead;
  // In cells (16 bytes): a plane is the part of a line of a channel group and class, (m, channel).
  // A row of pixels of grad_output has its segments apart, against bank conflicts.
  int32_t plane_columns, plane_cells, line_cells;
  int32_t line_step;                 // lines from a walk's window to its next
  int32_t window_lines, ring_lines;  // of the block that has most; two such windows at least
  int32_t fresh_cells, window_cells, ring_cells;  // of line_step lines, window_lines, ring_lines
  int32_t most_behind;  // strips of a walk that are read while the next one is written
  int32_t segment_cells;
  int32_t tile_rows;  // of grad_output in a stage
  // Where the copy engine brings grad_output: a segment is boxes of tile_rows x box_columns, each
  // row with its 16 bytes turned against bank conflicts. The engine reads from whole 16 bytes on:
  // row p is one of tensor map p % row_maps, which begins column_shift columns before it.
  bool boxes;
  int32_t segment_boxes, segment_bytes;
  int32_t box_columns, box_row_bits, box_bytes;  // a row of a box has 1 << box_row_bits bytes
  int32_t row_maps;                              // 1 or 2
  int32_t column_shift[2];                       // 0 or 2, by the address
  int32_t stages, stage_bytes;                   // of grad_output
  int32_t grad_at;                               // bytes from the start of shared memory
  int32_t quads_at, segments_at, shifts_at, barriers_at;  // likewise
  FastDiv segments_of_row_div, walk_rows_div, walks_of_rows_div, row_step_div, turns_div;
  int32_t segments;        // of a strip: what the kernels know by their type
  int32_t parts_of_value;  // likewise: each has a ring of lines, one after the other

  HALOCONV_HOST_DEVICE int32_t column_tiles() const { return run_tiles * channel_tiles; }
  HALOCONV_HOST_DEVICE int32_t runs_of_row() const { return classes * runs_of_class; }
  // Of 64 output channels, in a group.
  HALOCONV_HOST_DEVICE int32_t row_groups() const {
    return row_tiles * (share == Share::kChannels ? kMathGroups : 1);
  }
  // Strips follow each other slowest, so that blocks that run at one time read the same pixels.
  HALOCONV_HOST_DEVICE int64_t blocks() const {
    return int64_t{groups} * splits * row_tiles * column_tiles();
  }
  HALOCONV_HOST_DEVICE Block block(uint32_t index) const {
    Block b;
    set_columns(b, static_cast<int32_t>(index % column_tiles()));
    index /= column_tiles();
    b.row_tile = static_cast<int32_t>(index % row_tiles);
    index /= row_tiles;
    b.split = static_cast<int32_t>(index % splits);
    b.group = static_cast<int32_t>(index / splits);
    return b;
  }
  // Sets what depends on the column tile.
  HALOCONV_HOST_DEVICE void set_columns(Block& b, int32_t column_tile) const {
    b.column_tile = column_tile;
    b.first_group = column_tile % channel_tiles * tile_groups;
    b.first_run = column_tile / channel_tiles * tile_runs;
    b.runs = tile_runs < runs - b.first_run ? tile_runs : runs - b.first_run;
    b.first_row = b.first_run / runs_of_row();
    b.rows = (b.first_run + b.runs - 1) / runs_of_row() - b.first_row + 1;
  }
  HALOCONV_HOST_DEVICE Slot slot(const Block& b, int32_t index) const {
    const int32_t run = index / tile_groups;
    return {b.first_run + run, b.first_group + index % tile_groups, run >= b.runs};
  }

  // Of a line.
  HALOCONV_HOST_DEVICE int32_t planes() const { return tile_groups * classes; }
  HALOCONV_HOST_DEVICE int32_t quads() const { return planes() * (slot_channels / kLaneChannels); }
  // The cell, from its window's first, that the slot's first column meets in step 0; an idle slot
  // reads what the block's first one does.
  HALOCONV_HOST_DEVICE int32_t first_cell(const Block& b, int32_t index) const {
    Slot s = slot(b, index);
    if (s.idle) s = slot(b, 0);
    const int32_t in_row = s.run % runs_of_row();
    const int32_t tap_class = in_row / runs_of_class;
    const int32_t tap = in_row % runs_of_class * slot_taps;  // of the class
    return (s.run / runs_of_row() - b.first_row) * line_cells +
           ((s.group - b.first_group) * classes + tap_class) * plane_cells +
           (lead + tap * shift_step) * slot_channels;
  }
  // A cell that may be beyond the ring's end.
  HALOCONV_HOST_DEVICE int32_t in_ring(int32_t cell) const {
    return cell < ring_cells ? cell : cell - ring_cells;
  }
  // Cells from 8 columns of a slot to the next 8. Channels of a tap follow each other; with more
  // taps, either 8 channels make each, or the next tap's cells follow the last channel.
  HALOCONV_HOST_DEVICE int32_t column_stride() const {
    return slot_channels == 8 ? 8 * shift_step : 8;
  }
  // The filter's column of a tap of a run; taps_w or more: there is none.
  HALOCONV_HOST_DEVICE int32_t filter_column(int32_t run, int32_t tap_of_run) const {
    const int32_t in_row = run % runs_of_row();
    return in_row / runs_of_class + (in_row % runs_of_class * slot_taps + tap_of_run) * class_step;
  }

  HALOCONV_HOST_DEVICE int32_t step_of(int32_t strip) const {
    return strip - walk_rows_div.quotient(strip) * walk_rows;
  }
  HALOCONV_HOST_DEVICE Segment segment_at(int32_t strip, int32_t index, int32_t in_strip) const {
    const int32_t flight = walk_rows_div.quotient(strip);  // as splits count them
    const int32_t split = turns_div.quotient(flight);
    const int32_t walk = ((flight - split * turns) * splits + split) * in_strip + index;
    const int32_t above = segments_of_row_div.quotient(walk);  // (image, walk of its rows)
    const int32_t image = walks_of_rows_div.quotient(above);
    const int32_t of_rows = above - image * walks_of_rows;
    const int32_t part = row_step_div.quotient(of_rows);
    const int32_t row = (part * walk_rows + step_of(strip)) * row_step + of_rows - part * row_step;
    const int32_t column = (walk - above * segments_of_row) * segment;
    return {image, row, column, walk < walks && row < p};
  }
  // Rows that an image's segments have, and whether they have pixels that it has not.
  HALOCONV_HOST_DEVICE int32_t segment_rows() const { return walk_rows * walks_of_rows; }
  HALOCONV_HOST_DEVICE bool has_pixels_beyond() const {
    return q % segment != 0 || segment_rows() > p;
  }
  // The window of the split's first strip, and the next strip's.
  HALOCONV_HOST_DEVICE Window first_window(int32_t split) const {
    return {step_of(first_strip(split)), 0};
  }
  HALOCONV_HOST_DEVICE void advance(Window& window) const {
    if (++window.step == walk_rows) window.step = 0;
    window.cell = in_ring(window.cell + cells_to(window));
  }
  // From the window before.
  HALOCONV_HOST_DEVICE int32_t cells_to(const Window& window) const {
    return window.step == 0 ? window_cells : fresh_cells;
  }
  // The first line that a strip adds to the ring; the block's first strip adds all.
  HALOCONV_HOST_DEVICE int32_t first_fresh(const Block& b, const Window& window) const {
    return window.step == 0 || b.rows < line_step ? 0 : b.rows - line_step;
  }
  // How many strips right before one of this step may still be read while its lines are written. Of
  // another walk it is one, whose lines the ring has beside the window.
  HALOCONV_HOST_DEVICE int32_t strips_behind(int32_t step) const {
    return step == 0 ? 1 : step < most_behind ? step : most_behind;
  }
  // The input column of a segment's cell 0.
  HALOCONV_HOST_DEVICE int32_t input_column(const Segment& at, int32_t tap_class) const {
    return at.column * stride_w - pad_left - lead + tap_class * dilation_w;
  }
  // The input columns that the segment's pixels meet end here, those loaded with them aside. Cells
  // from there on are zero: a NaN must not reach the zeros that stand for pixels beyond the row's
  // end.
  HALOCONV_HOST_DEVICE int32_t input_end(const Segment& at) const {
    const int32_t pixels_end = at.column + segment < q ? at.column + segment : q;
    const int32_t end = (pixels_end - 1) * stride_w - pad_left + (taps_w - 1) * dilation_w + 1;
    const int32_t loaded = (end + input_vector - 1) & -input_vector;  // a power of two
    return loaded < w ? loaded : w;
  }
  HALOCONV_HOST_DEVICE int32_t input_row(const Segment& at, int32_t filter_row) const {
    return at.row * stride_h - pad_top + filter_row * dilation_h;
  }

  // Of a split.
  HALOCONV_HOST_DEVICE int32_t first_strip(int32_t split) const { return split * split_strips; }
  HALOCONV_HOST_DEVICE int32_t strips_of(int32_t split) const {
    const int32_t rest = strips - split * split_strips;
    return rest < split_strips ? rest : split_strips;
  }

  // A warpgroup's rows in a stage, its first pixel of a segment, and how many.
  HALOCONV_HOST_DEVICE int32_t first_row_of(int32_t math_group) const {
    return share == Share::kChannels ? math_group * kRowsOfGroup : 0;
  }
  HALOCONV_HOST_DEVICE int32_t group_pixels() const {
    return share == Share::kPixels ? segment / kMathGroups : segment;
  }
  HALOCONV_HOST_DEVICE int32_t first_pixel_of(int32_t math_group) const {
    return share == Share::kPixels ? math_group * group_pixels() : 0;
  }

  // Cells of a row of a stage. The threads that read 16 bytes at one time, 8 of them, are of two
  // rows and four segments: of 8, every other one, so that rows are one cell further apart.
  HALOCONV_HOST_DEVICE int32_t row_cells(int32_t in_strip) const {
    return in_strip * segment_cells + in_strip / 8;
  }

  // In boxes: where a row of a segment begins, bytes from the stage's start.
  HALOCONV_HOST_DEVICE uint32_t row_in_boxes(int32_t row, int32_t segment_index) const {
    return segment_index * segment_bytes + (row << box_row_bits);
  }
  // What an address of shared memory turns the 16 bytes of its row by.
  HALOCONV_HOST_DEVICE uint32_t turn_at(uint32_t address) const {
    return (address >> 7 << 4) & ((1u << box_row_bits) - 1);
  }
  // From a row's beginning, what lies so many bytes along the segment.
  HALOCONV_HOST_DEVICE uint32_t in_boxes(uint32_t bytes, uint32_t turn) const {
    const uint32_t in_row = bytes & ((1u << box_row_bits) - 1);
    return (bytes >> box_row_bits) * box_bytes + (in_row ^ turn);
  }

  // Partial sums: a warpgroup's 64 rows of a block's columns are a patch of 8 columns times 4
  // values for each thread; patches of a part, and parts, follow each other.
  HALOCONV_HOST_DEVICE int32_t patch_floats() const { return slots * width * kRowsOfGroup; }
  HALOCONV_HOST_DEVICE int64_t part_floats() const {
    return int64_t{groups} * row_groups() * column_tiles() * patch_floats();
  }
  HALOCONV_HOST_DEVICE int32_t part_of(const Block& b, int32_t math_group) const {
    return share == Share::kPixels ? b.split * kMathGroups + math_group : b.split;
  }
  HALOCONV_HOST_DEVICE int32_t row_group_of(const Block& b, int32_t math_group) const {
    return share == Share::kPixels ? b.row_tile : b.row_tile * kMathGroups + math_group;
  }
  // What value `index` of a part is the sum of.
  HALOCONV_HOST_DEVICE FilterElement element(int64_t index) const {
    const int64_t patch = index / patch_floats();
    const auto in_patch = static_cast<int32_t>(index % patch_floats());
    const auto row_group = static_cast<int32_t>(patch / column_tiles());
    const int32_t group = row_group / row_groups();
    const int32_t thread = in_patch / 4 % 128, value = in_patch % 4;
    const int32_t eighth = in_patch / 512 % (width / 8), slot_index = in_patch / 64 / width;
    const int32_t row = row_group % row_groups() * kRowsOfGroup + thread / 32 * 16 +
                        thread % 32 / 4 + value / 2 * 8;
    const int32_t column = eighth * 8 + thread % 4 * 2 + value % 2;
    Block b;
    set_columns(b, static_cast<int32_t>(patch % column_tiles()));
    const Slot s = slot(b, slot_index);
    FilterElement e;
    e.column = column;
    e.k = group * rows + row;
    e.c = s.group * slot_channels + column % slot_channels;
    e.r = s.run / runs_of_row();
    e.s = filter_column(s.run, column / slot_channels);
    e.exists = !s.idle && row < rows && e.c < channels && e.s < taps_w;
    return e;
  }
  HALOCONV_HOST_DEVICE int64_t bias_floats() const {
    return int64_t{groups} * row_groups() * kRowsOfGroup;
  }
};

// Everything but the pointers, of a flattened() problem; vectors as if pointers were aligned. None
// where a strip and its window are larger than shared memory, or the counts pass 31 bits.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan);

int64_t workspace_bytes(const Arguments& args, bool with_bias);
// Bytes of shared memory that these arguments' block needs.
int64_t shared_bytes(const Arguments& args);
// How many stages, kMaxStages at most, a block of so much shared memory may have.
int32_t most_stages(const Arguments& args, int64_t shared);

}  // namespace haloconv::sm90::wgrad
