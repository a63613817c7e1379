// The order in which math and load warps walk over source rows.
#pragma once

#include <cstdint>

#include "conv2d/families/few_channels/arguments.h"

namespace haloconv::few_channels {

// Calls body(band, segment) for all that this block sweeps. Neighbouring bands are
// swept at the same time, so that what they share comes from memory once.
template <class Body>
__device__ __forceinline__ void for_each_segment(const Arguments& args, Body body) {
  for (uint32_t index = blockIdx.x; index < args.items; index += gridDim.x) {
    const Item item = args.item(index);
    int32_t line = item.first_line;
    while (line < item.end_line) {
      const Segment segment = args.segment(line, item.end_line);
      body(item.band, segment);
      line += segment.lines;
    }
  }
}

}  // namespace haloconv::few_channels
