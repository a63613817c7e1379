// Which weights are finite: where all are, zeros beside the source make nothing NaN.
#pragma once

#include "conv2d/families/all_phases/arguments.h"

namespace haloconv::all_phases {

// The bits of those steps of 8 columns of a tile whose weights are not all finite, as the packing
// kernel says. All threads of a warp ask.
template <int kColumns>
__device__ __forceinline__ uint32_t steps_not_finite(const Arguments& args, int32_t column_tile) {
  static_assert(kChunkUnits == 4, "a column's flags of a chunk are one word");
  const auto* const flags = reinterpret_cast<const uint32_t*>(
                                static_cast<const unsigned char*>(args.packed) + args.flags_at) +
                            int64_t{column_tile} * kColumns * args.chunks;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  uint32_t steps = 0;
  for (int32_t chunk = 0; chunk < args.chunks; ++chunk) {
#pragma unroll
    for (int first = 0; first < kColumns; first += 32) {
      const int32_t column = first + lane;
      if (column < kColumns && flags[column * args.chunks + chunk] != 0) steps |= 1u << column / 8;
    }
  }
  return __reduce_or_sync(~0u, steps);
}

}  // namespace haloconv::all_phases
