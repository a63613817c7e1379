#include "conv2d/families/halo/copied_lines.h"

#include <limits>

namespace haloconv::halo {

int32_t place_shift(int64_t plane_elements) {
  for (int32_t shift = 0; 1 << shift <= kMaxPlaces; ++shift) {
    if ((plane_elements << shift) % kSectorPixels == 0) return shift;
  }
  return -1;
}

bool may_copy_lines(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                    const AxisPart& column) {
  const Strides& to = problem.gather.destination;
  const WindowAxis &h = row.window.axis, &w = column.window.axis;
  // A 3x3 filter of one chunk of channels, in 16 bits.
  if (h.taps != 3 || w.taps != 3 || h.source_step != 1 || w.source_step != 1 ||
      problem.chunks != 1 || problem.element_bytes != 2 ||
      problem.gather.rows % kCopiedChannels != 0) {
    return false;
  }
  // Whole tiles alone: a row's last one begins as late as it can. Pairs of pixels are written at
  // once.
  if (w.outputs < tile.columns || w.outputs % 2 != 0 || to.h % 2 != 0 || to.c % 2 != 0 ||
      to.n % 2 != 0) {
    return false;
  }
  const int64_t plane = (h.outputs - 1) * int64_t{row.step} + w.outputs;
  return place_shift(to.c) >= 0 && (problem.images == 1 || to.n % kSectorPixels == 0) &&
         to.c >= plane && plane < std::numeric_limits<int32_t>::max() - tile.columns;
}

}  // namespace haloconv::halo
