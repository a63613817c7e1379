// The order in which math and load warps walk over source rows.
#pragma once

#include <cstdint>

#include "conv2d/families/row_strips/arguments.h"

namespace haloconv::row_strips {

// Calls body(band, segment) for all that this block sweeps. Neighbouring bands are swept at the
// same time, so that what they share comes from memory once.
template <int kBlocks, class Body>
__device__ __forceinline__ void for_each_segment(const Arguments& args, Body body) {
  const auto first = static_cast<int32_t>(blockIdx.x) / kBlocks;
  const auto step = static_cast<int32_t>(gridDim.x) / kBlocks;
  for (int32_t index = first; index < args.items; index += step) {
    const Item item = args.item(index);
    int32_t line = item.first_line;
    while (line < item.end_line) {
      const Segment segment = args.segment(line, item.end_line);
      body(item.band, segment);
      line += segment.lines;
    }
  }
}

// Whether a source row is multiplied: rows outside the source are zeros, and are left out unless a
// weight is an infinity or NaN.
__device__ __forceinline__ bool is_multiplied(const Arguments& args, int32_t row, bool has_zeros) {
  return has_zeros || static_cast<uint32_t>(row) < static_cast<uint32_t>(args.source_height);
}

}  // namespace haloconv::row_strips
