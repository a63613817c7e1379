// What a plan comes to for one problem: the arguments of its kernel, and where things lie in shared
// memory. Plain numbers, made on the host, tested without a GPU.
//
// A block's tile of output pixels meets a window of input pixels. In shared memory a window pixel
// is a cell of 16 bytes: 4 channels of float32, or 8 of a 16-bit type. A chunk of channels is two
// cells, one for each half of the matrix instruction's k. In precise plans each of a value's two
// terms has cells of its own. With a stride, cells of equal residue (row or column modulo the
// stride) lie together, so that the cells which one tap meets are neighbours. The order of a
// stage's cells:
//
//   term > k-half > image > row residue > row > column residue > column
//
// For a 3x3 filter and stride 2, a tile of 4 outputs in a row meets 9 source columns:
//
//   source columns        0 1 2 3 4 5 6 7 8
//   residue 0 | residue 1     0 2 4 6 8 | 1 3 5 7
//   tap 0 of outputs 0..3     0 2 4 6                the first four cells
//   tap 1                                 1 3 5 7
//   tap 2                       2 4 6 8              tap 0's cells, shifted by one
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "conv2d/device/multiprocessor.h"
#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/halo/fold.h"
#include "conv2d/families/halo/nonfinite_marks.h"
#include "conv2d/families/halo/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/geometry/geometry.h"
#include "conv2d/geometry/integers.h"

namespace haloconv::halo {

inline constexpr int kMathGroups = 2;     // warpgroups that compute
inline constexpr int kLoadThreads = 256;  // threads that bring windows
inline constexpr int kThreads = kMathGroups * 128 + kLoadThreads;
inline constexpr int kRowsOfGroup = 64;  // output channels of a warpgroup
inline constexpr int kChunkBytes = 32;   // of a pixel's input channels in a window: two cells
inline constexpr int kMaxStages = 8;
inline constexpr int kMaxResidues = 8;
inline constexpr int kMaxSplits = 8;
inline constexpr int kCountersOfLaunch = 2;  // tiles that blocks took; whether any sums are marked
inline constexpr int kMathWarps = kMathGroups * 4;
inline constexpr int kEntryBytes = 16;  // of the load warps' table: window.h
// Places of the queue of tiles. The load warps are ahead of the math warpgroups by fewer tiles: by
// the stages, and by the loads that are on the way.
inline constexpr int kQueuedTiles = 32;
inline constexpr int kBarriers = 2 * kMaxStages + 3 * kMathWarps + kQueuedTiles;

// Steps (a tap of a chunk) whose weights are loaded together. Loads run past a tile's last step by
// less than a batch.
inline constexpr int kBatchSteps = 4;
inline constexpr int kTapsAgain = 2 * kBatchSteps;  // after the last tap's cell, of the first taps
inline constexpr int kStepBytes = 128 * 16;         // of a step's weights for 64 rows

// How many steps of a tile keep their weights in the math warpgroups' registers from tile to tile.
// 0: weights are loaded anew for each tile, however many steps it has.
constexpr int resident_steps(int width) { return width == 104 ? 18 : 0; }

// Whether a warpgroup's tile is a piece of one row.
inline bool is_line(const Tile& tile) { return !tile.patches && tile.images * tile.rows == 1; }

// Whether the copy engine writes such pieces: then all weights stay in registers, those of so many
// steps.
inline bool copies_lines(const Tile& tile) { return tile.copied && is_line(tile); }
inline constexpr int kCopiedSteps = 9;
inline int resident_steps(const Tile& tile) {
  return std::max(copies_lines(tile) ? kCopiedSteps : 0, resident_steps(tile.width));
}

// TF32 or 16-bit terms that a value is split into.
inline int32_t terms_of(const Plan& plan) { return plan.precise ? 2 : 1; }

// Pixels that a load thread has on the way, by the registers that accumulators leave.
constexpr int pixels_in_flight(int instructions, int width) {
  return resident_steps(width) > 0 ? 3 : instructions == 4 ? 4 : 7;
}

inline int pixels_in_flight(const Tile& tile) {
  return copies_lines(tile) ? pixels_in_flight(2, 104)
                            : pixels_in_flight(tile.instructions, tile.width);
}

inline constexpr int kPrecisePixels = 4;  // the same where sums are kept twice

// Sums of splits need registers that the largest accumulators, and resident weights, do not leave.
constexpr bool may_split(int instructions, int width) {
  return instructions * width < 256 && resident_steps(width) == 0;
}

// The same holds for pairs of pixels whose cells are not neighbours, as in a window with two
// residues.
constexpr bool pairs_may_be_apart(int width) { return resident_steps(width) == 0; }

// 32-bit words from one channel to the next where results are staged: 8 or 24 modulo 32, so that
// the accumulators' layout meets no bank twice.
constexpr int staging_pitch(int pixels) { return (pixels + 7) / 16 * 16 + 8; }
constexpr int staging_bytes(const Tile& tile) {
  return kMathWarps * 8 * staging_pitch(tile.width * tile.instructions) * 4;
}

// Channels of each of the rows that are folded, with those that pad a group's.
constexpr int64_t folded_channels(int64_t channels) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(channels, 8))));
}

// One axis of the tiles and their windows.
struct WindowAxis {
  int32_t outputs;                   // destination pixels
  int32_t tile, tiles;               // outputs computed by a block; how many blocks' there are
  int32_t source_size, source_step;  // source pixels; between neighbouring outputs
  int32_t origin;                    // source pixel that output 0's window starts at
  int32_t cells;                     // window cells of one residue
  int32_t last;                      // source pixel of the last, from the window's first
  int32_t residues;                  // residues that taps meet
  int32_t residue[kMaxResidues];
  int32_t taps;
  int32_t shift_step, first_shift;  // from tap to tap, from the window's start to tap 0's

  // The cell (of a residue) that a tap of output 0 meets; its residue's index goes to `index`.
  HALOCONV_HOST_DEVICE int32_t tap_cell(int32_t tap, int32_t& index) const {
    const int32_t shift = first_shift + tap * shift_step;
    index = 0;
    while (residue[index] != shift % source_step) ++index;
    return shift / source_step;
  }
  // The source pixel that a tap of an output meets, if the source has it.
  HALOCONV_HOST_DEVICE int32_t met_by(int32_t output, int32_t tap) const {
    return output * source_step + origin + first_shift + tap * shift_step;
  }
};

// Pixels of the destination computed together, as fold.h says: which of them, and which channel of
// a group, a row of the accumulators is.
struct FoldedRows {
  int64_t step = 0;      // elements of the destination from one to the next
  int32_t count = 1;     // 1: no fold
  bool columns = false;  // neighbours along w, not h
  int32_t pixels = 0;    // of the destination along that axis in all
  int32_t shift = 31;    // of each 2^shift channels, at least 8: 8 of the accumulators' rows differ
                         // in the channel alone

  struct Row {
    int32_t fold, channel;
  };
  HALOCONV_HOST_DEVICE Row at(int32_t row) const {
    return {row >> shift, static_cast<int32_t>(row & ((uint32_t{1} << shift) - 1))};
  }

  // Whether the destination has that row's pixel of output (p, q), where p and q are outputs. The
  // fold's later pixels have fewer outputs at the end of the axis.
  HALOCONV_HOST_DEVICE bool has(const Row& row, int32_t p, int32_t q) const {
    return row.fold < count && (columns ? q : p) * count < pixels - row.fold;
  }
};

// A row's own taps along an axis, of those that a fold has.
struct OwnTaps {
  int32_t first, count;
};

struct Arguments {
  const void* source;  // (n, groups * channels, h, w), pixels of a row contiguous
  const void* packed;  // the filter, as pack_arguments.h says
  const void* bias;    // (groups * rows), or null
  void* destination;   // (n, groups * rows, h, w)
  int64_t source_n, source_c, destination_n, destination_c;
  int32_t source_h, destination_h, destination_w;

  int32_t images, groups, channels, rows;  // channels and rows of a group
  int32_t row_tiles;                       // of a group
  int32_t tile_images, image_tiles;
  uint32_t tiles;
  WindowAxis h, w;

  int32_t taps;
  int32_t chunks, split_chunks;  // in all; of a split: the last may have fewer
  int32_t packed_steps;          // of 64 rows

  bool patches;
  // Columns 2i and 2i + 1 are both inside the window or both outside, so one load may bring both.
  bool even;
  int32_t pair_cells;     // from the cell of column 2i to that of column 2i + 1
  bool streams;           // windows are loaded without filling the L1 cache
  int32_t source_vector;  // pixels that the load warps read at once: 1 or 2
  int32_t vector;         // pixels that may be written at once: 1, 2, 4 or, of 16 bits, 8
  Share share;
  int32_t group_images, group_rows, group_columns;  // of a warpgroup's tile
  int32_t splits, stages;
  int32_t chunks_ahead;  // chunks that the first math group is ahead of the second

  int32_t pitch;        // cells from one window row to the next
  int32_t image_cells;  // cells of one image's window
  int32_t window_cells;
  int32_t entries;  // of the load warps' table: cells, or pairs of them if `even`
  FastDiv image_div, pitch_div, cells_h_div, residues_w_div;
  FastDiv columns_div, rows_div;  // of a warpgroup's tile
  // Byte offsets in shared memory; the ring of windows comes first.
  int32_t staging_at, table_at, taps_at, tiles_at, barriers_at;

  FoldedRows folded;
  FastDiv row_tiles_div, w_tiles_div, h_tiles_div, image_tiles_div;
  uint32_t clusters;       // that are launched
  uint32_t* tile_counter;  // of the launch: tiles that blocks took after their first
  bool one_line;           // a warpgroup's tile is a piece of one row of neighbouring pixels
  Fusion fusion;           // in float32; read by the kernels that have it
  Fold fold;
  int32_t chunk;  // input channels of a window
  int32_t terms;  // operands that a value is, each with cells of its own
  // With a fold: the marks of sums that are NaN, and whether this launch has set any.
  uint32_t* marks;
  uint32_t* has_marks;

  int64_t stage_bytes() const { return int64_t{window_cells} * terms * kChunkBytes; }
  int64_t element_bytes() const { return kChunkBytes / chunk; }

  // The row's weights at other taps than these are zeros.
  HALOCONV_HOST_DEVICE OwnTaps own_taps_h(const FoldedRows::Row& row) const {
    return own_taps(h, !folded.columns, row.fold);
  }
  HALOCONV_HOST_DEVICE OwnTaps own_taps_w(const FoldedRows::Row& row) const {
    return own_taps(w, folded.columns, row.fold);
  }
  // How many blocks of 64 rows the packed filter has for each group of the problem.
  HALOCONV_HOST_DEVICE int32_t packed_row_groups() const {
    return row_tiles * (share == Share::kChannels ? kMathGroups : 1);
  }

 private:
  HALOCONV_HOST_DEVICE OwnTaps own_taps(const WindowAxis& axis, bool is_folded,
                                        int32_t of_fold) const {
    if (!is_folded) return {0, axis.taps};
    return {fold.first_delay + of_fold * fold.delay_step, axis.taps - fold.more_taps};
  }
};

// One launch of the kernel: a phase that has taps, or one of the parts that a fold makes of it.
struct Launch {
  AxisPhase h, w;
  Arguments arguments;     // all but their pointers, and what the pointers' alignment decides
  int64_t packed_at;       // bytes of the workspace before its filter, which parts share
  int64_t destination_at;  // elements of the destination before its first pixel
};

// Input channels of a window of such elements.
inline int32_t chunk_of(DataType type) { return static_cast<int32_t>(kChunkBytes / size_of(type)); }

// The launches of a flattened() problem, all but their pointers. None where a window has too many
// residues or is larger than shared memory, where there are 2^31 tiles or more, or where a
// warpgroup's tile spans 2^31 bytes of the destination.
std::vector<Launch> make_launches(const Conv2dProblem& problem, const Plan& plan);

// Steps of 64 rows in the packed filter: of all splits, and those that loads run past the last.
inline int32_t packed_steps(int32_t splits, int32_t split_chunks, int32_t taps) {
  return splits * split_chunks * taps + kBatchSteps;
}
// Of so many launches' counters of tiles, behind the packed filters.
inline int64_t counter_bytes(size_t launches) {
  return round_up(static_cast<int64_t>(launches) * kCountersOfLaunch * 4, 16);
}
// Bytes of the marks, behind the counters. All launches share them; only folded rows need them.
inline int64_t mark_bytes(int32_t fold) { return fold > 1 ? int64_t{kMarkWords} * 4 : 0; }

// Whether windows are loaded without filling the L1 cache. With many taps they would evict the
// weights, which both math groups read. With fewer taps windows gain more from the cache, because
// pieces of rows begin within a sector: benchmarks/NOTES.md.
constexpr bool streams(int32_t taps) { return taps >= 20; }

// Entries of the load warps' table: cells of a window, or pairs of them.
inline int32_t entries_of(int32_t window_cells, bool even) {
  return even ? window_cells / 2 : window_cells;
}

// Bytes of the packed filters of all launches, which are followed by their counters of tiles.
int64_t packed_bytes(const std::vector<Launch>& launches);
int64_t workspace_bytes(const std::vector<Launch>& launches);
// Bytes of shared memory that these arguments' block needs.
int64_t shared_bytes(const Arguments& args);

}  // namespace haloconv::halo
