// A plan's arguments for the kernels of one problem: plain numbers, made and tested on the host.
//
// A tile is the pairs of result pixels 2j, 2j + 1 of one phase along columns (rows of equal residue
// modulo the stride), in a box of columns, rows and images, for some channels: a matrix product of
// pixels (rows) and channels (columns) for each of the pair's two phases. The copy engine brings
// the source that the box meets, its window, as it lies, (image, channel, row, column), and each
// shift is read from there. The filter is packed as the matrix instruction takes it.
#pragma once

#include <cstdint>
#include <optional>

#include "conv2d/epilogue/fusion.h"
#include "conv2d/families/phase_pairs/plan.h"
#include "conv2d/geometry/fast_div.h"
#include "conv2d/problem.h"

namespace haloconv::phase_pairs {

inline constexpr int kMathGroups = 2;
inline constexpr int kThreads = kMathGroups * 128 + 128;  // one of the last 128 brings chunks
inline constexpr int kMaxStages = 8;
inline constexpr int kMaxRowPhases = 4;  // phases along columns, and so the largest stride there

// Rows of the result of equal residue modulo the stride.
struct RowPhase {
  int32_t first_row;   // of the result
  int32_t rows;        // how many
  int32_t origin;      // the source row at which row 0's window starts
  int32_t taps;        // along columns
  int32_t first_r;     // the filter's row for the last of these source rows
  int64_t packed_at;   // bytes before its packed filter
  int32_t step_bytes;  // of a chunk's packed filter for a tile's channels
};

struct Arguments {
  const void* packed;  // the filter; set for the launch
  const float* bias;   // or null
  // What is done to results that have been written; is_fused unless that is only a bias.
  bool is_fused;
  const float* fused_bias;
  Fusion fusion;
  float* destination;
  int64_t destination_n, destination_c, destination_h;  // elements between neighbours
  int32_t channels, images, width;                      // of the result
  bool pairs;            // whether two neighbours are written at once, if the address allows it
  int32_t chunks;        // of source channels
  int32_t stages;        // in shared memory
  int32_t chunks_ahead;  // by which the first math group starts before the second

  // The tile's box: columns, rows and images are powers of two.
  int32_t log2_columns, log2_rows;
  FastDiv flat_columns;  // if the source is one row, a row of the problem's
  bool is_flat;
  int32_t box[4];  // of the window: columns, rows, channels, images
  // The source column at which column 0's window starts, a multiple of 16 bytes as the copy engine
  // needs it, and how many columns are before the first that is met.
  int32_t column_origin, columns_before;
  // Distances in the window in 32-bit words: from row to row, from image to image, and from one k
  // of the matrix instruction to the next, and from one half of them to the other.
  int32_t row_words, image_words, k_words, half_words;
  bool interleaves;  // k = i and i + 4 are channels 2i and 2i + 1 of eight, otherwise i and i + 4
  int32_t window_bytes, stage_bytes;

  int32_t stride_h;
  int32_t tiles;
  FastDiv channel_tiles, row_phases, column_tiles, row_tiles;
  RowPhase phase[kMaxRowPhases];

  // The source as the copy engine sees it: columns, rows, channels and images.
  int64_t source_extents[4], source_strides[4];
  // The filter's strides, for its packing.
  int64_t filter_k, filter_c, filter_r, filter_s;
  int32_t filter_channels;  // of the source
  int32_t step_r, step_s;   // the filter's rows, and columns, from tap to tap of a phase
  int32_t
      first_s[kPhases];  // of each phase the filter's column that the pattern's first shift meets
  int64_t packed_bytes;
};

// None if the kernels do not take the problem in tiles of this shape.
std::optional<Arguments> make_arguments(const Conv2dProblem& problem, const Tile& tile);

// Bytes of shared memory of a block.
int64_t shared_bytes(const Arguments& args);

}  // namespace haloconv::phase_pairs
