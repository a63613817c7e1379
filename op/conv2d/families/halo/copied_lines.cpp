#include "conv2d/families/halo/copied_lines.h"

#include <limits>

namespace haloconv::halo {

namespace {

// The kernels' widths by type.
int32_t element_bytes_of(const Tile& tile) { return tile.width == 104 ? 4 : 2; }

bool is_even(int64_t n) { return n % 2 == 0; }

}  // namespace

int32_t place_shift(int64_t plane_elements, int64_t element_bytes) {
  for (int32_t shift = 0; 1 << shift <= kMaxPlaces; ++shift) {
    if ((plane_elements * element_bytes << shift) % kSectorBytes == 0) return shift;
  }
  return -1;
}

bool may_copy_lines(const FoldedProblem& problem, const Tile& tile, const AxisPart& row,
                    const AxisPart& column) {
  const Strides& to = problem.gather.destination;
  const WindowAxis &h = row.window.axis, &w = column.window.axis;
  const int64_t bytes = problem.element_bytes;
  // A 3x3 filter, and as many chunks of channels as the kernels have.
  if (h.taps != 3 || w.taps != 3 || h.source_step != 1 || w.source_step != 1 ||
      problem.chunks != bytes / 2) {
    return false;
  }
  if (problem.element_bytes != element_bytes_of(tile) ||
      problem.gather.rows % kCopiedChannels != 0) {
    return false;
  }
  // Whole tiles alone: a row's last one begins as late as it can. Pairs of pixels are written at
  // once.
  if (w.outputs < tile.columns || !is_even(w.outputs) || !is_even(to.h) || !is_even(to.c) ||
      !is_even(to.n)) {
    return false;
  }
  const int64_t plane = (h.outputs - 1) * int64_t{row.step} + w.outputs;
  return place_shift(to.c, bytes) >= 0 &&
         (problem.images == 1 || to.n * bytes % kSectorBytes == 0) && to.c >= plane &&
         plane < std::numeric_limits<int32_t>::max() - tile.columns;
}

}  // namespace haloconv::halo
