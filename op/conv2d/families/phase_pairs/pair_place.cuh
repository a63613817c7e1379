// The place of a pair of pixels.
#pragma once

#include "conv2d/families/phase_pairs/shared_memory.cuh"

namespace haloconv::phase_pairs {

// A thread's pair of result pixels, for the thread's first channel.
struct PairPlace {
  float* first;
  bool exists, has_second;

  // The place of the tile's pair of that number.
  __device__ __forceinline__ PairPlace(const Arguments& args, const TilePosition& tile,
                                       int32_t pair, int32_t channel) {
    const RowPhase& phase = args.phase[tile.phase];
    int32_t row = pair >> args.log2_columns;
    int32_t column = pair - (row << args.log2_columns) + tile.column;
    const int32_t image = (row >> args.log2_rows) + tile.image;
    row = (row & ((1 << args.log2_rows) - 1)) + tile.row;
    if (args.is_flat) {
      const int32_t flat = (row << args.log2_columns) + column;
      row = args.flat_columns.quotient(flat);
      column = flat - row * args.flat_columns.divisor;
    }
    exists = image < args.images && row < phase.rows && 2 * column < args.width;
    has_second = exists && 2 * column + 1 < args.width;
    first = args.destination + image * args.destination_n + channel * args.destination_c +
            (phase.first_row + int64_t{row} * args.stride_h) * args.destination_h + 2 * column;
  }
};

}  // namespace haloconv::phase_pairs
