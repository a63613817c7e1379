// A plan's arguments for the kernels of one problem, and all their index arithmetic: plain numbers,
// tested without a GPU.
//
//   destination[n, c, i, j] = sum over k, t, s of filter[c, k, t, s] *
//     source[n, k, i + first_row + t * row_step, j + first_column + s * column_step]
//
// is computed the other way round: each source pixel's products with all taps and destination
// channels are formed at once, as 64 pixels x 8 source channels (16 for 16-bit types) times these
// channels x (t, s, c), and then they are shifted and added. A block sweeps down a band, which is a
// window of source columns and as many destination columns; its two math warpgroups share the
// window. The products of a filter row add up in the accumulators on the way, so that a source row
// is read once. The destination's rows of one residue modulo row_step are numbered as lines, over
// all residues and images.
//
// The columns at the boundary of two bands, extended to whole sectors, are the fringe: both bands
// write their parts of these sums to the workspace, and a second kernel adds them. Where
// shuffled_epilogue.cuh writes results, the fringe is two columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/few_channels/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::few_channels {

inline constexpr int kMathThreads = 256;  // two warpgroups, which compute
inline constexpr int kLoadThreads = 128;  // which bring source pixels
inline constexpr int kThreads = kMathThreads + kLoadThreads;
inline constexpr int kWindow = 256;  // source columns: two matrix instructions of each warpgroup
// The source channels of a stage are two steps of the matrix instruction, 32 bytes for each pixel.
inline constexpr int kSteps = 2;
inline constexpr int kStepBytes = 32;
// Elements from one channel to the next in a stage. In 32-bit words that is 8 modulo 32, or 4 for
// 16-bit types, so that loads of two pixels of four channels, or of every other of eight channels,
// meet different banks.
inline constexpr int kPitch = kWindow + 8;
inline constexpr int kStageBytes = kSteps * kStepBytes * kPitch;
// By the elements' size.
template <class T>
inline constexpr int kStepChannels = kStepBytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kChunk = kSteps * kStepChannels<T>;
// Words from one channel to the next in the staged products: 4 modulo 16.
inline constexpr int kStagedPitch = kWindow + 4;
inline constexpr int kTogether = 4;  // destination channels that a thread writes at a time
// Of shuffled_epilogue.cuh: the taps of a row, the columns of each, and the bytes of what warps
// hand to the next, twice.
inline constexpr int kShuffledTaps = 3;
inline constexpr int kShuffledChannels = 16;
inline constexpr int kHandedBytes = kMathThreads / 32 * 2 * kShuffledChannels * 4;
inline constexpr int kMinStages = 3;
inline constexpr int kMaxStages = 12;
inline constexpr int kBarrierBytes = (2 * kMaxStages + 2) * 8;

// The part that a block sweeps at a time.
struct Item {
  int32_t band, first_line, end_line;
};

// The part of an item in one image and residue.
struct Segment {
  int32_t image, first_row, lines;  // destination rows first_row + i * row_step
};

// Where a band's sum of a column belongs.
struct Column {
  bool is_fringe, exists;
  int32_t x;                   // the destination's column
  int32_t side, boundary, at;  // in the fringe; side 0 is the left band's, which has the bias
};

struct Arguments {
  const void* source;
  const void* packed;  // the filter: element()
  const void* bias;    // or null
  void* destination;
  float* fringe;
  int64_t source_n, source_c, source_h;  // elements from one to the next
  int64_t destination_n, destination_c, destination_h, destination_w;
  // The filter's elements: of a destination channel, source channel, row and column of the filter.
  int64_t filter_row, filter_channel, filter_h, filter_w;
  bool reversed_h, reversed_w;  // tap 0 is the filter's last

  int32_t source_height, source_width, height, width;  // width, height: the destination's
  int32_t channels, rows;                              // source and destination channels
  int32_t taps_h, taps_w;
  int32_t first_row, first_column, row_step, column_step;

  int32_t row_taps, columns;  // the instance
  int32_t tap_columns;        // columns from one tap of a row to the next
  int32_t chunks;
  // Source columns copied at once: 1 or 4, for 16-bit types 8. Several begin at whole 16 bytes, so
  // the copy of a row then begins before the band's window, by an even number of columns.
  int32_t vector;
  uint32_t source_at;    // elements from a multiple of 16 bytes to `source`
  int32_t first_window;  // where the source's first band begins: even
  int32_t band_columns;  // of source and destination alike
  int32_t bands;
  int32_t offset;  // destination column i of a band meets tap 0 at its pixel i + offset
  int32_t images;
  int32_t fringe_left, fringe_right;  // columns on either side of a boundary, of the destination
  int32_t residues, lines_of_residue, lines;  // lines: of all residues and images
  int32_t sweeps, sweep_lines;
  uint32_t items;
  int32_t stages;
  int32_t weights_bytes;
  int32_t bias_at, bias_floats;  // at: bytes in shared memory; the bias is padded with zeros
  int32_t staged_at, ring_at, barriers_at;
  bool writes_pairs;  // two columns by one store, in shuffled_epilogue.cuh
  FastDiv fringe_div, bands_div, lines_of_residue_div, residues_div;
  int32_t zeros_at;  // bytes in shared memory

  HALOCONV_HOST_DEVICE Item item(uint32_t index) const {
    const int32_t sweep = bands_div.quotient(static_cast<int32_t>(index));
    const int32_t first = sweep * sweep_lines;
    const int32_t rest = lines - first;
    return {static_cast<int32_t>(index) - sweep * bands, first,
            first + (rest < sweep_lines ? rest : sweep_lines)};
  }
  HALOCONV_HOST_DEVICE Segment segment(int32_t line, int32_t end_line) const {
    const int32_t run = lines_of_residue_div.quotient(line);
    const int32_t in_run = line - run * lines_of_residue;
    const int32_t image = residues_div.quotient(run);
    const int32_t rest = lines_of_residue - in_run;
    return {image, run - image * residues + in_run * row_step,
            end_line - line < rest ? end_line - line : rest};
  }
  // Source rows that a segment reads: after its last line come those of that line's further taps.
  HALOCONV_HOST_DEVICE int32_t source_lines(const Segment& s) const { return s.lines + taps_h - 1; }
  HALOCONV_HOST_DEVICE int32_t source_row(const Segment& s, int32_t source_line) const {
    return s.first_row + first_row + source_line * row_step;
  }
  // The source column of a band's first pixel.
  HALOCONV_HOST_DEVICE int32_t source_column(int32_t band) const {
    return first_window + band * band_columns;
  }
  // The columns by which the copies of a channel's row begin before the band. They are the same for
  // all channels of equal residue modulo `vector`.
  HALOCONV_HOST_DEVICE int32_t shift(int32_t image, int32_t channel, int32_t row,
                                     int32_t column) const {
    // Modulo a power of two, so overflow does no harm.
    const uint32_t at = source_at + static_cast<uint32_t>(image) * static_cast<uint32_t>(source_n) +
                        static_cast<uint32_t>(channel) * static_cast<uint32_t>(source_c) +
                        static_cast<uint32_t>(row) * static_cast<uint32_t>(source_h) +
                        static_cast<uint32_t>(column);
    return static_cast<int32_t>(at & static_cast<uint32_t>(vector - 1));
  }
  // The band's pixel that its destination column meets at a tap; the column's taps whose pixels
  // are the band's begin and end here.
  HALOCONV_HOST_DEVICE int32_t pixel_of(int32_t column, int32_t tap) const {
    return column + offset + tap * column_step;
  }
  HALOCONV_HOST_DEVICE int32_t first_tap(int32_t column) const {
    const int32_t before = -(column + offset);
    return before <= 0 ? 0 : (before + column_step - 1) / column_step;
  }
  HALOCONV_HOST_DEVICE int32_t end_tap(int32_t column) const {
    const int32_t left = band_columns - (column + offset);
    const int32_t end = left <= 0 ? 0 : (left + column_step - 1) / column_step;
    return end < taps_w ? end : taps_w;
  }

  HALOCONV_HOST_DEVICE int32_t fringe_columns() const { return fringe_left + fringe_right; }
  // Column `i` of those beside its own of which a band has sums: the part of the fringe that
  // belongs to its neighbours.
  HALOCONV_HOST_DEVICE int32_t column_beside(int32_t i) const {
    return i < fringe_left ? i - fringe_left : band_columns + i - fringe_left;
  }
  HALOCONV_HOST_DEVICE Column column_of(int32_t band, int32_t column) const {
    Column c{};
    c.x = band * band_columns + column;
    c.exists = c.x < width;
    if (column < fringe_right) {
      c.is_fringe = band > 0;
      c.side = 1;
      c.boundary = band - 1;
      c.at = fringe_left + column;
    } else if (column >= band_columns - fringe_left) {
      c.is_fringe = band < bands - 1;
      c.boundary = band;
      c.at = column - (band_columns - fringe_left);
    }
    c.exists = c.exists && (c.is_fringe || (column >= 0 && column < band_columns));
    return c;
  }
  // Elements of the fringe: (side, image, row, boundary, channel, column).
  HALOCONV_HOST_DEVICE int64_t fringe_row(int32_t side, int32_t image, int32_t row) const {
    return ((int64_t{side} * images + image) * height + row) * (bands - 1) * rows *
           fringe_columns();
  }
  HALOCONV_HOST_DEVICE int64_t fringe_at(const Column& c, int32_t image, int32_t row) const {
    return fringe_row(c.side, image, row) + c.boundary * rows * fringe_columns() + c.at;
  }

  // The instance's rows of taps that the filter does not have come first: their products are
  // dropped when a destination row begins.
  HALOCONV_HOST_DEVICE int32_t first_tap_row() const { return row_taps - taps_h; }

  template <class T>
  HALOCONV_HOST_DEVICE int64_t packed_values() const {
    return int64_t{chunks} * kChunk<T> * row_taps * columns;
  }
  // Where the filter has a value of the packed one; negative if that value is zero. The packed
  // filter has the first half of a step's channels for all columns (tap_row, tap, destination
  // channel), then the second half: the instruction's K-major layout.
  template <class T>
  HALOCONV_HOST_DEVICE int64_t element(int32_t index) const {
    constexpr int32_t kHalf = kStepChannels<T> / 2;
    const int32_t width_of = row_taps * columns;
    const int32_t column = index / kHalf % width_of;
    const int32_t channel = index / kHalf / width_of * kHalf + index % kHalf;
    const int32_t t = column / columns - first_tap_row();
    const int32_t s = column % columns / tap_columns;
    const int32_t row = column % columns % tap_columns;
    if (t < 0 || s >= taps_w || row >= rows || channel >= channels) return -1;
    return row * filter_row + channel * filter_channel +
           (reversed_h ? taps_h - 1 - t : t) * filter_h +
           (reversed_w ? taps_w - 1 - s : s) * filter_w;
  }
};

// Whether rows of the source begin at even elements, so that pairs of pixels stay together wherever
// they begin. Rows of 16-bit types must.
bool begins_rows_at_pairs(const Conv2dProblem& problem, Direction direction);

// Everything but the pointers; `vector` as if pointers were aligned. None if the kernels do not
// take the problem.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan);

int64_t workspace_bytes(const Arguments& args);

int64_t shared_bytes(const Arguments& args);

}  // namespace haloconv::few_channels
