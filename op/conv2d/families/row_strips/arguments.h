// A plan's arguments for the kernels of one problem, and all their index arithmetic: plain numbers,
// tested without a GPU.
//
//   destination[n, c, i, j] = sum over k, t, s of filter[c, k, t, s] *
//     source[n, k, i + first_row + t * row_step, j + first_column + s * column_step]
//
// A block sweeps down a band of 256 destination columns. It multiplies the pixels of one source
// row, shifted by a tap's column, with all rows of the filter's column at once: 64 pixels x 8
// source channels (16 for 16-bit types) times these channels x (t, c). So a source row is read
// once, and its products are added to as many destination rows as the filter has rows. The band's
// sums of these rows stay in registers; after each source row one of them is complete.
//
// The destination's rows of one residue modulo row_step are numbered as lines, over all residues
// and images.
//
// The packed filter stays in shared memory. If it does not fit there, the two blocks of a cluster
// have half of the source channels each, and one sends its sums of a complete row to the other:
// each writes half of the columns.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/families/row_strips/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::row_strips {

inline constexpr int kMathThreads = 256;  // two warpgroups, which compute
inline constexpr int kLoadThreads = 128;  // which bring source pixels
inline constexpr int kThreads = kMathThreads + kLoadThreads;
inline constexpr int kBand = 256;   // columns: two matrix instructions of each warpgroup
inline constexpr int kRowTaps = 5;  // of a filter, at most
inline constexpr int kColumnTaps = 9;
inline constexpr int kChannels = 32;                 // of the destination
inline constexpr int kWidth = kRowTaps * kChannels;  // of the matrix instruction
inline constexpr int kRowSums = kChannels / 2;       // a thread's, of a row, in an instruction
inline constexpr int kWordRows = 8;                  // 32-bit words of a pixel in a chunk
inline constexpr int kStepBytes = kWidth * 32;       // of the packed filter, for a chunk's tap
// Words from one word row of a stage to the next: 8 modulo 32, so that loads of eight pixels of
// four word rows meet different banks.
inline constexpr int kMostPitch = 296;
inline constexpr int kMinStages = 3;
inline constexpr int kMaxStages = 8;
inline constexpr int kExchangeBytes = kMathThreads / 2 * kRowSums * 4;
inline constexpr int kBarrierBytes = (2 * kMaxStages + 4) * 8;
// By the elements' size.
template <class T>
inline constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kChunk = kWordRows * kPerWord<T>;  // source channels
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));  // pixels that are loaded at once

// The part that a block, or a cluster, sweeps at a time.
struct Item {
  int32_t band, first_line, end_line;
};

// The part of an item in one image and residue.
struct Segment {
  int32_t image, first_row, lines;  // destination rows first_row + i * row_step
};

struct Arguments {
  const void* source;
  const void* packed;  // the filter: element()
  const void* bias;    // or null
  void* destination;
  int64_t source_n, source_c, source_h;  // elements from one to the next
  int64_t destination_n, destination_c, destination_h;
  // The filter's elements: of a destination channel, source channel, row and column of the filter.
  int64_t filter_row, filter_channel, filter_h, filter_w;
  bool reversed_h, reversed_w;  // tap 0 is the filter's last

  int32_t source_height, source_width, height, width;  // width, height: the destination's
  int32_t channels, rows;                              // source and destination channels
  int32_t taps_h, taps_w;
  int32_t first_row, first_column, row_step, column_step;

  int32_t blocks;        // that share the source channels
  int32_t chunks;        // of a block
  int32_t first_window;  // the source column of the first band's first word: whole 16 bytes
  int32_t offset;        // destination column i of a band meets tap 0 at its word i + offset
  int32_t vectors;       // of a word row
  int32_t pitch;
  int32_t bands, images;
  int32_t residues, lines_of_residue, lines;  // lines: of all residues and images
  int32_t sweeps, sweep_lines;
  int32_t items;
  int32_t stages, stage_bytes;
  int32_t weights_bytes;                               // of a block
  int32_t bias_at, exchange_at, ring_at, barriers_at;  // bytes in shared memory
  FastDiv bands_div, lines_of_residue_div, residues_div, vectors_div;

  HALOCONV_HOST_DEVICE Item item(int32_t index) const {
    const int32_t sweep = bands_div.quotient(index);
    const int32_t first = sweep * sweep_lines;
    const int32_t rest = lines - first;
    return {index - sweep * bands, first, first + (rest < sweep_lines ? rest : sweep_lines)};
  }
  HALOCONV_HOST_DEVICE Segment segment(int32_t line, int32_t end_line) const {
    const int32_t run = lines_of_residue_div.quotient(line);
    const int32_t in_run = line - run * lines_of_residue;
    const int32_t image = residues_div.quotient(run);
    const int32_t rest = lines_of_residue - in_run;
    return {image, run - image * residues + in_run * row_step,
            end_line - line < rest ? end_line - line : rest};
  }
  // Source rows that a segment meets: after its last line come those of that line's further taps.
  HALOCONV_HOST_DEVICE int32_t source_lines(const Segment& s) const { return s.lines + taps_h - 1; }
  HALOCONV_HOST_DEVICE int32_t source_row(const Segment& s, int32_t source_line) const {
    return s.first_row + first_row + source_line * row_step;
  }
  // The destination row that is complete after a source line; negative if there is none yet.
  HALOCONV_HOST_DEVICE int32_t complete_row(const Segment& s, int32_t source_line) const {
    const int32_t line = source_line - (taps_h - 1);
    return line < 0 ? -1 : s.first_row + line * row_step;
  }
  // The source column of a band's first word.
  HALOCONV_HOST_DEVICE int32_t source_column(int32_t band) const {
    return first_window + band * kBand;
  }

  // The instance's rows of taps that the filter does not have come first: their products are
  // dropped when a destination row begins.
  HALOCONV_HOST_DEVICE int32_t first_tap_row() const { return kRowTaps - taps_h; }

  template <class T>
  HALOCONV_HOST_DEVICE int32_t packed_values() const {
    return blocks * weights_bytes / static_cast<int32_t>(sizeof(T));
  }
  // Where the filter has a value of the packed one; negative if that value is zero. The packed
  // filter has a part for each chunk and column of taps. Such a part has the first half of the
  // chunk's channels for all columns (row of taps, destination channel), then the second half: the
  // instruction's K-major layout.
  template <class T>
  HALOCONV_HOST_DEVICE int64_t element(int32_t index) const {
    constexpr int32_t kHalf = kChunk<T> / 2;
    const int32_t step = index / (kStepBytes / static_cast<int32_t>(sizeof(T)));
    const int32_t column = index / kHalf % kWidth;
    const int32_t half = index / (kHalf * kWidth) % 2;
    const int32_t chunk = step / taps_w, s = step - chunk * taps_w;
    const int32_t channel = chunk * kChunk<T> + half * kHalf + index % kHalf;
    const int32_t t = column / kChannels - first_tap_row();
    const int32_t row = column % kChannels;
    if (t < 0 || row >= rows || channel >= channels) return -1;
    return row * filter_row + channel * filter_channel +
           (reversed_h ? taps_h - 1 - t : t) * filter_h +
           (reversed_w ? taps_w - 1 - s : s) * filter_w;
  }
};

// Everything but the pointers. None if the kernels do not take the problem.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Plan& plan);

int64_t workspace_bytes(const Arguments& args);

int64_t shared_bytes(const Arguments& args);

}  // namespace haloconv::row_strips
