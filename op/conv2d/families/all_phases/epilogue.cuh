// From a warp's sums to the result. With a bias alone, straight from registers: a thread's sums of
// a step are two columns, which may be neighbours in memory, of a period for each half of a block.
#pragma once

#include "conv2d/families/all_phases/fused_epilogue.cuh"
#include "conv2d/families/all_phases/nonfinite_repair.cuh"

namespace haloconv::all_phases {

// kPairs: two columns are written at once.
template <class T, int kBlocks, int kColumns, bool kPairs>
__device__ __forceinline__ bool write_sums(const Arguments& args, const ColumnPlace* columns,
                                           const float (&sums)[kBlocks][kColumns / 2],
                                           int32_t first, int32_t lane) {
  T* to[kBlocks][2];
  uint32_t pixels[kBlocks][2];
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PeriodPlace place =
          place_of(args, PeriodOf(args, first + block * 64 + half * 8 + lane / 4));
      to[block][half] = static_cast<T*>(args.destination) + place.offset;
      pixels[block][half] = place.pixels;
    }
  }
  float all = 0;  // NaN if one of them is, or an infinity
#pragma unroll
  for (int step = 0; step < kColumns / 8; ++step) {
    const ColumnPlace* const of_step = columns + step * 8 + lane % 4 * 2;
    constexpr int kAtOnce = kPairs ? 2 : 1;
#pragma unroll
    for (int j = 0; j < 2; j += kAtOnce) {
      const ColumnPlace column = of_step[j];
      const float biases[2] = {column.bias, of_step[j + kAtOnce - 1].bias};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            values[i] = sums[block][step * 4 + half * 2 + j + i] + biases[i];
            all += 0.0f * values[i];
          }
          Element<T>::store(to[block][half] + column.offset, values,
                            (column.pixel & ~pixels[block][half]) == 0);
        }
      }
    }
  }
  return isnan(all);
}

// Sums of columns that meet no tap are zero, whatever was multiplied.
template <int kBlocks, int kColumns>
__device__ __forceinline__ void clear_idle_columns(const Arguments& args,
                                                   const ColumnPlace* columns,
                                                   float (&sums)[kBlocks][kColumns / 2],
                                                   int32_t lane) {
  // The bits of a period's rows, and of its columns, that have a tap.
  const uint32_t rows = args.h.shifts > 1 ? 0xffff : (1u << min(args.h.taps, 16)) - 1;
  const uint32_t of_row = args.w.shifts > 1 ? 0xffff : (1u << min(args.w.taps, 16)) - 1;
#pragma unroll
  for (int step = 0; step < kColumns / 8; ++step) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if ((columns[step * 8 + lane % 4 * 2 + j].pixel & ~(rows | of_row << 16)) == 0) continue;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        sums[block][step * 4 + j] = sums[block][step * 4 + 2 + j] = 0;
      }
    }
  }
}

template <class T, int kBlocks, int kColumns>
__device__ __forceinline__ void write_results(const Arguments& args,
                                              const SharedMemory<kColumns>& shared,
                                              const TilePosition& tile, const ColumnPlace* columns,
                                              float (&sums)[kBlocks][kColumns / 2], int32_t warp,
                                              int32_t lane) {
  const int32_t first = tile.first + warp / 4 * kBlocks * 64 + warp % 4 * 16;
  if (args.has_idle_columns) clear_idle_columns<kBlocks, kColumns>(args, columns, sums, lane);
  const ColumnFlags* const flags = shared.flags(warp / 4);
  if constexpr (takes_lone_weights(kColumns)) {
    if (flags->has_lone()) {
      add_lone_weights<T, kBlocks, kColumns>(args, tile.column_tile, flags, first, lane, sums);
    }
  }
  bool may_be_nan;
  if (args.is_fused) {
    may_be_nan = FusedEpilogue<T, kBlocks, kColumns>(args, shared, warp, lane)
                     .write(tile, columns, first, sums);
  } else if (args.writes_pairs) {
    may_be_nan = write_sums<T, kBlocks, kColumns, true>(args, columns, sums, first, lane);
  } else {
    may_be_nan = write_sums<T, kBlocks, kColumns, false>(args, columns, sums, first, lane);
  }
  if (!__any_sync(~0u, may_be_nan)) return;
  repair<T, kBlocks, kColumns>(args, tile.column_tile, columns, flags, first);
}

}  // namespace haloconv::all_phases
