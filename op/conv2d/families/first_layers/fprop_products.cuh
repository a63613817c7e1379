// A warpgroup's products in fprop: both operands, rows of units and the filter's image, are in
// shared memory.
#pragma once

#include "conv2d/families/first_layers/operands.h"
#include "conv2d/families/first_layers/row_ring.cuh"
#include "cuda/wgmma.cuh"
#include "cuda/wgmma_shared.cuh"

namespace haloconv::sm90::first_layers {

// 64 pixels of a tile, whose first row of units is `row` rows on in the ring, times all kN
// channels: sums (pixels x channels). With kRows the pixels times 64 of the channels: sums
// (channels x pixels), of which a thread's are neighbours in a row.
template <class T, int kN, bool kRows>
__device__ __forceinline__ void multiply(const Sweep& sweep, const RowConsumer& rows, int32_t row,
                                         uint32_t columns_at, uint32_t filter,
                                         float (&sums)[kRows ? 32 : kN / 2]) {
  int32_t rows_left = sweep.r;
  do {
    const uint32_t at = columns_at + rows.slot(row) * sweep.row_bytes;
    int32_t group = 0;
    do {
      const uint32_t first = sweep.units.group[group].unit * kUnitBytes;
      const uint32_t second = sweep.units.group[group + 1].unit * kUnitBytes;
      wgmma_fence();
      if constexpr (kRows) {
        wgmma_shared<T, 64, false, false>(sums, unit_operand(filter, kN * kUnitBytes),
                                          unit_operand(at + first, second - first));
      } else {
        wgmma_shared<T, kN, false, false>(sums, unit_operand(at + first, second - first),
                                          unit_operand(filter, kN * kUnitBytes));
      }
      filter += 2 * kN * kUnitBytes;
      group += 2;
    } while (group < sweep.units.groups);
    row += sweep.dilation_h;
  } while (--rows_left > 0);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_settle(sums);
}

}  // namespace haloconv::sm90::first_layers
